"""Text of the manual that the program does not contain."""

from __future__ import annotations

ABOUT = (
    "Counts and measures the machine's hardware as configured in TOML, and writes the result as extended resources "
    "to the machine's own Kubernetes Node: once, and again when the hardware or these numbers on the Node change.",
    "The service does that automatically. It is disabled until `systemctl enable --now capacityd`; `systemctl reload "
    "capacityd` makes it read its configuration again, and fails if that has errors.",
)

FILES = (
    ("/usr/lib/capacityd/conf.d/*.toml", "configuration from an image; read first"),
    ("/usr/local/lib/capacityd/conf.d/*.toml", "the same; replaces files of the same name in /usr/lib"),
    ("/etc/capacityd/capacityd.toml", "configuration of the administrator; optional, read next"),
    ("/etc/capacityd/conf.d/*.toml", "read last; replaces files of the same name in /usr. cloud-init writes here"),
    ("/run/capacityd", "state of the running service; it can be recreated"),
    ("/usr/share/capacityd/examples", "examples: configurations, cloud-init, alerts, a separate identity"),
)

KUBECTL = (
    "What an operator asks about the Nodes of a cluster, on any machine with kubectl: it only reads. `kubectl "
    "capacityd` runs the program kubectl-capacityd, which also works by itself. It is a package of its own, without a "
    "service."
)

COLOUR = (
    ("NO_COLOR", "if it is set and not empty, there is no colour on a terminal"),
    ("TERM", "if it is `dumb`, there is no colour on a terminal"),
)
ENVIRONMENT = (
    *COLOUR,
    ("RUNTIME_DIRECTORY", "used instead of /run/capacityd; systemd sets it"),
)
KUBECTL_ENVIRONMENT = (
    (
        "KUBECONFIG",
        "read by `kubectl capacityd` only, which uses ~/.kube/config without it. The commands of a node take "
        "`--kubeconfig`, or `kubeconfig` in the configuration",
    ),
    ("HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "used by `kubectl capacityd` only, as kubectl does"),
)

MERGING = (
    "Files are read in the order above, those in a folder sorted by name, and those of the two folders in /usr sorted "
    "together. A later file replaces a resource as a whole, and single settings of the other tables; "
    "`enabled = false` drops a resource. An empty file, or a link to /dev/null, disables the file of the same name. "
    "Any other empty file is an error.",
    "An unknown key, a wrong type or a unit that does not fit is an error. `capacityd config check` lists all errors. "
    "Commands refuse a configuration with errors. The service publishes the resources without errors and leaves the "
    "others unchanged on the Node; if a reload finds errors, the previous configuration stays active. capacityd warns "
    "about settings that are valid but probably mistakes. A file in or beside conf.d that is not read, and that may be "
    "meant to be, is an error. "
    "Files and folders must belong to root, and neither their group nor others may be able to write them, because they "
    "can name programs that run as root.",
)

RESOURCES = (
    "The name of a resource is what pods request: your own domain, a slash, and a name, in quotes: `[resources."
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
