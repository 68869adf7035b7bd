"""The JSON fields that commands print with --json, for docs/json.md.

resources[].name is the field `name` of each object in the list `resources`.
"""

from __future__ import annotations

from typing import NamedTuple

from capacityd.model.errors import Cause
from capacityd.model.reasons import PassReason
from capacityd.model.waits import WaitReason
from kubectl_capacityd.fleet.findings import Reason


class Field(NamedTuple):
    """Fields with the same type and meaning. type: the JSON type, with "or null" if the value can be null."""

    names: str
    type: str
    meaning: str


def _words(values: type[Cause] | type[Reason] | type[WaitReason] | type[PassReason]) -> str:
    return ", ".join(f"`{value.value}`" for value in values)


_TROUBLES = (
    Field("troubles[].reason", "text", "what is wrong with the Node: a reason of the condition, the most urgent first"),
    Field("troubles[].name, troubles[].kind", "text or null", "as in `changes`; null for the Node as a whole"),
    Field("troubles[].text", "text", "for people: may change in any version"),
)
_ERRORS = (
    Field("errors[].file", "text", "path of the file"),
    Field("errors[].line", "number or null", "line of the error"),
    Field("errors[].table", "text", "table of TOML"),
    Field("errors[].key", "text", "key in the table"),
    Field("errors[].message", "text", "for people: may change in any version"),
)
FIELDS: dict[str, tuple[Field, ...]] = {
    "devices": (
        Field("devices[].detector", "text", "name of the detector"),
        Field("devices[].device", "text", "name of the device"),
        Field("devices[].path", "text", "path of the device in /sys, or another one"),
        Field("devices[].vendor, devices[].model", "text", 'names of the vendor and the model; "" if not known'),
        Field("devices[].values", "object", "key of the detector -> value"),
        Field("devices[].unreadable", "object", "key of the detector -> why it could not be read"),
        Field("devices[].toml", "text or null", "TOML that matches this device alone"),
        Field("devices[].toml_reason", "text", "why `toml` is null"),
        Field("devices[].kind_toml", "text or null", "TOML that matches all devices of this kind"),
        Field("devices[].kind_count", "number or null", "how many devices `kind_toml` matches; null if unknown"),
        Field("not_listed", "object", "detector -> why some of its devices could not be listed"),
    ),
    "probe": (
        Field("resources[].name", "text", "name of the resource"),
        Field("resources[].outcome", "text", "`quantity`, `absent` or `unknown`"),
        Field("resources[].quantity", "number or null", "the quantity"),
        Field("resources[].cause", "text or null", f"of an unknown reading: {_words(Cause)}"),
        Field("resources[].reason", "text", "for people: may change in any version"),
        Field("resources[].expect", "number or null", "`expect` of the configuration"),
        Field("resources[].below_expect", "true or false", "whether the quantity is below `expect`"),
        Field("resources[].contributions[].device", "text", "name of a device that counts"),
        Field("resources[].contributions[].amount", "number", "how much the device counts for"),
        Field("resources[].contributions[].note", "text", "a note about the device"),
    ),
    "status": (
        Field("problems[].message, problems[].advice", "text", "what is wrong, and the remedy, for people"),
        Field("node", "text or null", "name of the Node"),
        Field("observe", "true or false", "whether the service only observes"),
        Field("reasons", "list", f"the reasons for the last reconcile pass: {_words(PassReason)}"),
        Field("last_reconcile, next_reconcile", "time or null", "end of the last pass, and start of the next one"),
        Field("last_read, last_write", "time or null", "when the service last read and wrote the Node"),
        Field("pass_running", "true or false", "whether a pass runs, so that problems are from an earlier pass"),
        Field("watched_since", "time or null", "since when the Node has been watched; null if it is not"),
        Field("starts_at_boot", "true, false or null", "whether systemd starts it at boot; null if that is unknown"),
        Field("configuration", "text or null", "hash of the configuration in use"),
        *_TROUBLES,
        Field("waits[].reason", "text", f"why a later pass is due, the earliest first: {_words(WaitReason)}"),
        Field("waits[].name, waits[].kind", "text or null", "the resource or label that waits; null if the Node does"),
        Field("waits[].until", "number", "when it is due, in seconds since 1970"),
        Field("waits[].text", "text", "the reason and the time left, as `plan`, `status` and the journal print them"),
        Field("resources[].name", "text", "name of the resource"),
        Field("resources[].kind", "text", "`resource`, or `label` for the label of this name"),
        Field("resources[].reading", "number, text or null", "the quantity, `absent`, `unknown` or `unconfigured`"),
        Field("resources[].cause", "text or null", "of an unknown reading, as in `probe`"),
        Field("resources[].expect", "number or null", "`expect` of the configuration"),
        Field("resources[].published", "number or null", "what the annotation says"),
        Field(
            "resources[].capacity, resources[].allocatable",
            "text or null",
            "what the Node has; a label's value",
        ),
        Field("resources[].trouble", "text or null", "what is wrong with it: a reason of the condition"),
        Field("resources[].note", "text", "for people: may change in any version"),
        Field("running", "true or false", "whether the service runs"),
        Field("pid", "number or null", "the process id of the service; null if it does not run, or if not known yet"),
    ),
    "plan": (
        Field("node", "text", "name of the Node"),
        Field("changes[].name", "text", "name of the resource"),
        Field("changes[].kind", "text", "`resource`, or `label` for the label of this name"),
        Field("changes[].action", "text", "`set`, `remove`, `keep`, `hold`, `refuse` or `deny`"),
        Field(
            "changes[].stored, changes[].allocatable", "text or null", "what the Node has in capacity and allocatable"
        ),
        Field("changes[].desired", "number or null", "what the Node should have now"),
        Field("changes[].published", "number or null", "what the annotation says after the change"),
        Field("changes[].reason", "text", "for people: may change in any version"),
        *_TROUBLES,
        Field("patch", "object or null", "the strategic merge patch; null if nothing is to be written"),
        Field(
            "applied",
            "true or false",
            "whether the patch was written: by `apply` or `withdraw`, which print the same fields",
        ),
    ),
    "config check": (
        Field("files", "list", "paths of the files that were read"),
        Field("skipped", "list", "paths of the other files in the searched folders"),
        *_ERRORS,
        Field("warnings", "list", "the same fields as `errors`"),
    ),
    "config show": (
        Field("files", "list", "paths of the files that were read"),
        Field("hash", "text", "as in the annotation capacityd/configuration"),
        Field("kubernetes, service, resources", "object", "the tables, as in TOML"),
        Field("origins", "object", "table and key -> the file that it is from"),
    ),
}
"""Command of capacityd -> its fields. Times are in seconds since 1970."""

FIELDS_OF_KUBECTL: dict[str, tuple[Field, ...]] = {
    "fleet": (
        Field("nodes", "number", "how many Nodes are reported"),
        Field("as_of", "time", "when they were read"),
        Field("resources[].name", "text", "name of the resource"),
        Field("resources[].nodes", "number", "how many Nodes publish it"),
        Field(
            "resources[].usual",
            "number",
            "the most frequent quantity of these Nodes; the largest, if several are equally frequent",
        ),
        Field("resources[].capacity, resources[].allocatable", "number", "totals of these Nodes"),
        Field(
            "resources[].requested",
            "number or null",
            "requested by pods on these Nodes; completed and failed pods do not count",
        ),
        Field("resources[].free", "number or null", "allocatable and not requested"),
        Field("resources[].waiting", "number or null", "pods that request it and are not bound to a Node"),
        Field("findings[].node", "text or null", "null if the finding is about the cluster"),
        Field("findings[].reason", "text", f"the worst first: a reason of the condition, or {_words(Reason)}"),
        Field("findings[].message", "text", "for people: may change in any version"),
        Field("findings[].shared_message", "text", "the same without what differs between Nodes, to group by"),
        Field("findings[].since", "time or null", "since when the condition has not been True"),
        Field("findings[].ready", "true, false or null", "whether the Node is ready"),
        Field("findings[].cordoned", "true or false", "whether the Node is cordoned"),
        Field("by_node", "list or null", "null without --nodes and without names of Nodes"),
        Field("by_node[].node", "text", "name of the Node"),
        Field("by_node[].ready", "true, false or null", "whether the Node is ready"),
        Field("by_node[].cordoned", "true or false", "whether the Node is cordoned"),
        Field("by_node[].resources[]", "object", "`name`, `capacity`, `allocatable`, `requested` and `free`"),
    ),
}
"""Command of kubectl capacityd -> its fields."""
