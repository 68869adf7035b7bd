"""The text of the manual that is not part of the program."""

from __future__ import annotations

from capacityd.cli.fleet.findings import Reason
from capacityd.model.errors import Cause

ABOUT = (
    "Counts and measures the machine's hardware as configured in TOML, and writes the result as extended resources "
    "to the machine's own Kubernetes Node: once, and again only when the hardware changes.",
    "The service does that automatically. It is disabled until `systemctl enable --now capacityd`; `systemctl reload "
    "capacityd` makes it read its configuration again, and fails if that has errors.",
)

FILES = (
    ("/usr/lib/capacityd/conf.d/*.toml", "configuration from an image; read first"),
    ("/usr/local/lib/capacityd/conf.d/*.toml", "the same; replaces files of the same name in /usr/lib"),
    ("/etc/capacityd/capacityd.toml", "the administrator's configuration; optional, read next"),
    ("/etc/capacityd/conf.d/*.toml", "read last; replaces files of the same name in /usr. cloud-init writes here"),
    ("/usr/share/capacityd/schema.json", "the JSON Schema of these files, for editors"),
    ("/run/capacityd", "state of the running service; it can be recreated"),
    ("/usr/share/doc/capacityd/examples", "examples: configurations, cloud-init, alerts, a separate identity"),
)

ENVIRONMENT = (
    ("NO_COLOR", "if set and not empty: no colour on a terminal"),
    ("TERM", "`dumb` means no colour on a terminal"),
    ("RUNTIME_DIRECTORY", "instead of /run/capacityd; systemd sets it"),
    ("STATE_DIRECTORY", "instead of /var/lib/capacityd; systemd sets it"),
    (
        "KUBECONFIG",
        "read by `fleet` only, which uses ~/.kube/config without it. Other commands take `--kubeconfig`, or "
        "`kubeconfig` in the configuration",
    ),
)

MERGING = (
    "Files are read in the order above, those in a folder sorted by name. A later file replaces a resource as a whole, "
    "and single settings of the other tables; `enabled = false` drops a resource. An empty file, or a link to "
    "/dev/null, disables the file of the same name.",
    "An unknown key, a wrong type or a unit that does not fit is an error. `capacityd config check` lists all errors. "
    "Commands refuse a configuration with errors. The service publishes the resources without errors and leaves the "
    "others unchanged on the Node; if a reload finds errors, the previous configuration stays active. What is "
    "valid but probably a mistake is a warning, as is a file in conf.d that is not read. Files and folders must belong "
    "to root, and neither their group nor others may write them: they can name programs that run as root.",
    "The first line `#:schema file:///usr/share/capacityd/schema.json` lets editors complete and check a file (Even "
    "Better TOML, taplo). `capacityd config schema` prints the schema of the installed version.",
)

RESOURCES = (
    "The name of a resource is what pods request: a domain of your own, a slash, and a name, in quotes: `[resources."
    '"example.com/dongle"]`. A resource needs exactly one detector, whose value is a table or a list of tables. A '
    "device matches if any table matches. All keys of a table must match; `{}` matches all devices that the defaults "
    "do not exclude.",
    "The quantity is the sum (or `reduce`) over the devices, times `slots`, minus `reserve`, rounded down, at least 0. "
    "A device counts once, even if several tables match it.",
)

VALUES = (
    (
        "text",
        'matches exactly, or as a glob with `*`, `?` and `[…]`; `""` matches a missing value. A list matches if one '
        "of its values does",
    ),
    ("id", 'hexadecimal digits in quotes, such as "0403", case-insensitive; otherwise like text'),
    (
        "size",
        "a comparison with a unit: `>=500GB`, or several, joined by commas, that must all hold. A list matches if one "
        "of its values does",
    ),
    ("speed", "the same, such as `>=10Gbit/s`"),
    ("frequency", "the same, such as `>=3GHz`"),
    ("number", "the same without a unit, such as `>=1`, or a whole number"),
    ("time", "such as `30s`, `5min` or `2h`; `ms`, `s`, `min` (or `m`), `h` and `d`"),
    ("path", "an absolute path"),
)

JSON = (
    (
        "devices --json",
        "`devices`: each with `detector`, `device`, `path`, `vendor`, `model`, `values` (key to value), "
        "`unreadable` (key to reason), `toml` (a table that matches it alone, or null and `toml_reason`), `kind_toml` "
        "(a table that matches all devices of its kind) and `kind_count` (how many devices that matches, or null if "
        "that is unknown); `not_listed`: detector -> why not all of its devices could be listed",
    ),
    (
        "probe --json",
        "`resources`: each with `name`, `outcome` (quantity, absent or unknown), `quantity`, `cause` (of an "
        f"unknown reading: {', '.join(c.value for c in Cause)}; else null), `reason` (for people: the text may "
        "change), `expect` (or null), `below_expect` "
        "and `contributions`: a list of `device`, `amount` and `note`",
    ),
    (
        "status --json",
        "`service` (`pid`, `memory_bytes`, `cpu_seconds` with that of its ended workers, …, or null if it is not "
        "running), `node`, `observe`; `reasons` of the last reconcile pass; "
        "`last_reconcile`, `next_reconcile`, `last_read` and `last_write` of the Node (seconds since 1970, or null); "
        "`resources`: each with `name`, `reading`, `expect` (or null), `published`, `cause` (as in `probe`), "
        "`capacity`, `allocatable`, `held_until`, `refused`, `denied`, `below_expect`, `not_allocatable`, "
        "`overwritten` (allocatable as another writer left it, or null), `degraded` (it is one of these or unknown) "
        "and `note`; `other_resources`: extended resource of the Node that capacityd does not publish to its writer "
        "(device_plugin or unknown); `condition_not_stored`: whether the Node lacks the condition that was written; "
        "`pass_running`: whether a check of the configuration or a pass runs, so that the errors are from before it; "
        "`slow_activity` (check, probe or node) of a worker that has taken 30 s or more and `slow_since` (or "
        "null); `error`, `stale_reason` and `metrics_error` with `metrics_advice` "
        "(empty if there is none); "
        "`event_source_errors` and "
        "`configuration_errors` (lists); `previous_configuration_active`: whether these errors are from a reload, so "
        "that the previous configuration is still used; `device_classes`: published resource to the DeviceClasses that "
        "also serve it (with --kubeconfig)",
    ),
    (
        "plan --json",
        "`node`, `changes`: a list of `name`, `action` (set, remove, keep, hold, refuse or deny), `old`, `new` and "
        "`reason`; and `patch`, the JSON Patch",
    ),
    ("apply --json", "the same, and `applied`: whether it was written"),
    (
        "fleet --json",
        "`nodes`: how many are reported; `as_of`: when they were read; `resources`: each with `name`, `nodes` (how "
        "many publish it), `capacity` and `allocatable` (their totals), `usual` (the quantity that most of these Nodes "
        "have), `requested` (by pods that are bound to them and have not finished), `free` (what is allocatable and "
        "not requested) and `waiting` (pods that request it and are not bound); the last three are null without the "
        "right to list pods; `attention`: each with `node` (null for the cluster), `reasons` (a list, the worst first; "
        f"those of a condition that is not True, or {', '.join(r.value for r in Reason)}), `message` (for people), "
        "`since` (or null), `ready` (or null) and `cordoned`; `groups`, the worst first: each with `reason`, "
        "`message`, `nodes` (a list of names), `since`, and how many are `not_ready` and `cordoned`; `by_node`: null "
        "without --nodes or names, else each with `node`, `ready`, `cordoned` and `resources` (`name`, `capacity`, "
        "`allocatable`, `requested`, `free`). Times are in seconds since the epoch",
    ),
    ("template --json", "the document that it prints as YAML"),
    (
        "config check --json",
        "`files` that were read; `errors`: a list of `file`, `line` (or null), `table`, `key` and `message`; "
        "`warnings`: the same",
    ),
    (
        "config show --json",
        "`files`; `hash`, as in the annotation capacityd/configuration; the tables, as in TOML; `origins`: table and "
        "key to the file that each is from; `errors`",
    ),
)
