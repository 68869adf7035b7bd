"""What the pages say beside what the program knows of itself."""

from __future__ import annotations

ABOUT = (
    "Counts and measures what the machine has, as its TOML says, and writes the result as extended resources into the "
    "capacity of the machine's own Kubernetes Node: once, and again only when the hardware changes.",
    "The service does that by itself. It is off until `systemctl enable --now capacityd`, and reads its configuration "
    "anew after `systemctl reload capacityd`.",
    "The commands `devices`, `record` and `config schema` are in the package capacityd-tools, with completions and "
    "examples; nodes need not have it. With it, terminals are shown colours and tables that fit.",
)

FILES = (
    ("/usr/lib/capacityd/conf.d/*.toml", "configuration that comes with an image; read first"),
    ("/usr/local/lib/capacityd/conf.d/*.toml", "the same; masks files of the same name in /usr/lib"),
    ("/etc/capacityd/capacityd.toml", "the administrator's configuration; read next"),
    ("/etc/capacityd/conf.d/*.toml", "read last; masks files of the same name in /usr. Where cloud-init writes"),
    ("/usr/share/capacityd/schema.json", "the JSON Schema of these files, for editors (of capacityd-tools)"),
    ("/run/capacityd", "what the service needs while it runs; nothing to edit, nothing to keep"),
    ("/usr/share/doc/capacityd/examples", "configurations, cloud-init, an identity of its own (of capacityd-tools)"),
)

ENVIRONMENT = (
    ("NO_COLOR", "if it is set: no colour on a terminal"),
    ("FORCE_COLOR", "if it is set: tables and colour also in a pipe"),
    ("TERM", "`dumb` means no colour"),
    ("RUNTIME_DIRECTORY", "instead of /run/capacityd; systemd sets it"),
    ("KUBECONFIG", "is not read: say `--kubeconfig`, or `kubeconfig` in the configuration"),
)

MERGING = (
    "Files are read in the order above, those in a folder sorted by name. A later file replaces a resource as a whole, "
    "and single settings of the other tables; `enabled = false` drops a resource. An empty file, or a link to "
    "/dev/null, masks another of its name.",
    "Everything is checked: an unknown key, a wrong type or a unit that does not fit is an error. `capacityd config "
    "check` tells all of them at once. Commands refuse a configuration with errors; the service publishes what is "
    "good, leaves what is broken as it is on the Node, and keeps the good configuration when it is reloaded.",
    "The first line `#:schema file:///usr/share/capacityd/schema.json` lets editors complete and check a file (Even "
    "Better TOML, taplo). `capacityd config schema` prints the schema of the version that is installed.",
)

RESOURCES = (
    'A resource has the name that pods ask for: a domain of yours, a slash, a name, in quotes: `[resources."example.'
    'com/dongle"]`. Exactly one detector must stand in it; its value is a table or a list of tables, of which any may '
    "match. In a table all keys must match; `{}` means all devices but those that the defaults leave out.",
    "The quantity is the sum (or `reduce`) of what the devices have, times `slots`, less `reserve`, rounded down, at "
    "least 0. A device counts once, however many tables match it.",
)

VALUES = (
    (
        "text",
        'matches exactly, or as a glob with `*`, `?` and `[…]`; `""` matches what is missing. A list means any of',
    ),
    ("id", 'hexadecimal digits in quotes, such as "0403", whatever their case; else like text'),
    (
        "size",
        "a comparison with a unit: `>=500GB`, or several joined by commas that all must hold. A list means any of",
    ),
    ("speed", "the same, such as `>=10Gbit/s`"),
    ("number", "the same without a unit, such as `>=1`, or a whole number"),
    ("time", "such as `30s`, `5min` or `2h`; `ms`, `s`, `min` (or `m`), `h` and `d`"),
    ("path", "an absolute path"),
)

JSON = (
    (
        "devices --json",
        "`devices`: each with `detector`, `device`, `path`, `maker`, `model`, `values` (key to value), "
        "`unread` (key to why), `line` (the TOML that matches it alone, or null and `why`), `kind` (that of all alike) "
        "and `alike` (how many these are)",
    ),
    (
        "probe --json",
        "`resources`: each with `name`, `outcome` (quantity, absent or unknown), `quantity`, `reason` and "
        "`evidence`: a list of `device`, `contributes` and `note`",
    ),
    (
        "status --json",
        "`service` (`pid`, `next`, …, or null if it does not run), `node`, `observe`, `reasons`; "
        "`resources`: each with `name`, `reading`, `published`, `capacity`, `allocatable`, `held_until`, "
        "`wrong` and `note`; `trouble`, `stale`, `deaf`, `metrics`, `mistakes`; `looked`, `asked` and `wrote`. "
        "Times: seconds since 1970",
    ),
    (
        "plan --json",
        "`node`, `changes`: a list of `name`, `action` (set, remove, keep, hold or refuse), `old`, `new` and "
        "`reason`; and `patch`, the JSON Patch",
    ),
    ("apply --json", "the same, and `applied`: whether it was written"),
    (
        "config check --json",
        "`files` that were read; `problems`: a list of `file`, `line` (or null), `table`, `key` and `message`",
    ),
    (
        "config show --json",
        "`files`; the tables, as in TOML; `origins`: table and key to the file that each is from; `problems`",
    ),
)
