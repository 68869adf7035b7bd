"""Takes out of a recording what tells one machine from another: serial numbers, WWNs, UUIDs, addresses, host names.

The same value becomes the same replacement wherever it stands (see secrets.py), so devices stay as equal or as
different as they are. What is secret is learned from the places that hold such things, and from its shape. The names
that an administrator gave (interfaces, volumes, mount points) stay, but for the host's and for what is secret in them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from capacityd.host.secrets import Secrets, addresses, plain

_FILE = re.compile(
    "(.*[_-])?(serial([_-]?(no|num|number))?|sn|uuid|guid|nguid|eui|wwid|wwn|unique_id|uniq|asset_tag|hostid|hostnqn"
    "|subsysnqn|initiatorname|targetname|sas_address|port_name|node_name|fabric_name|phys_switch_id|phys_port_id|cid"
    "|board_tracer|enclosure_identifier)"
)
_ENCLOSURE = re.compile("/enclosure/[^/]+/id$")
_TUNNEL = re.compile("(?:[0-9a-f]{2}:){3}(?:(?:[0-9a-f]{2}:){12})?[0-9a-f]{2}")  # an end of it: an IP address's bytes
_ADDRESS = re.compile("(.*[_-])?((ip|tr)?addr(ess)?|ip6?_target|gateway)", re.I)
_KEY = re.compile(
    r"(.*_)?(SERIAL(_SHORT|_NUMBER)?|UUID(_SUB)?(_ENC)?|PARTUUID|N?GUID|EUI(64)?|NAA_.*|WWN(_.*)?|WWID|UNIQ|SN|MAC"
    r"|TARGETNAME|INITIATORNAME)"
)
_COMPOSED = ("ID_SERIAL", "ID_USB_SERIAL")  # of vendor, model and serial number, or of what there is of them
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])")
_SHAPES = (
    re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?::[0-9A-Fa-f]{2}){19})(?![0-9A-Fa-f:])"),
    _UUID,
    re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z]{6}(?:-[0-9A-Za-z]{4}){5}-[0-9A-Za-z]{6}(?![0-9A-Za-z])"),  # LVM
    re.compile(r"(?<=/w1_bus_master\d/)[0-9a-f]{2}-[0-9a-f]{12}"),
    re.compile("(?<![0-9A-Fa-f:])[0-9a-f]{4}(?::[0-9a-f]{4}){7}(?![0-9A-Fa-f:])"),  # InfiniBand's GIDs
    re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{4}\.([0-9a-f]{12})(?![0-9A-Za-z])"),  # bridges, after their priority
    re.compile("(?<![0-9A-Za-z])[0-9A-Fa-f]{32}(?![0-9A-Za-z])"),  # UUIDs without hyphens
)
_MULTICAST = re.compile("[0-9A-Fa-f][13579BDFbdf](:[0-9A-Fa-f]{2}){5}")
_PUBLIC = re.compile("/(?:wmi|mei|tee)/|/class_id$")  # there, UUIDs are those of a kind of device
_NAMED = re.compile(r"/net/[^/]+|/sys/fs/btrfs/[^/]+|/(?:upper|lower|slave)_[^/]+|/brif/[^/]+|/w1_bus_master\d/[^/]+")
_NETWORK = re.compile("(fuse[.])?(9p|beegfs|ceph|cifs|curlftpfs|davfs|glusterfs|lustre|nfs4?|smb3|sshfs)")
_SERVER = re.compile(r"(?:[^/]*//)?(?:[^/]*@)?([^/:[]*)")  # after a scheme and a user


def redact(recording: Mapping[str, Any], also: Iterable[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """A copy without all that, and what the user should know of it.

    also: ids that must not stand in it though no part of it tells them, such as the machine's own.
    """
    secrets = _learned(recording)
    for one in also:
        secrets.add(one, shape=True)
    kept = [host for host in _hosts(recording) if not secrets.add_host(host)]
    notes = [
        f'the host name "{host}" is one of the kernel\'s own words, so it is left where it stands' for host in kept
    ]
    done = {part: _without(value, secrets) for part, value in recording.items()}
    for path, text in recording["files"].items():
        done["files"][secrets.within(path)] = _file(secrets, path, text)
    for path, known in recording["properties"].items():
        done["properties"][secrets.within(path)] = _mapping(secrets, known)
    return done | {"redacted": True}, notes


def _without(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.within(value)
    if isinstance(value, Mapping):
        return {secrets.within(key): _without(inner, secrets) for key, inner in value.items()}
    return [_without(inner, secrets) for inner in value] if isinstance(value, list) else value


def _file(secrets: Secrets, path: str, text: str) -> str:
    if path.endswith("/uevent"):
        lines = [line.partition("=") for line in text.split("\n")]
        known = _mapping(secrets, {key: value for key, _, value in lines})
        return "\n".join(f"{secrets.within(key)}{sign}{known[secrets.within(key)]}" for key, sign, _ in lines)
    return secrets.whole(text) if _holds_id(path, text) else secrets.within(text)


def _holds_id(path: str, text: str) -> bool:
    """Whether a file is a place for ids."""
    name = path.rpartition("/")[2]
    if name in ("address", "broadcast"):
        return _TUNNEL.fullmatch(text.strip()) is not None
    return _FILE.fullmatch(name) is not None or _ENCLOSURE.search(path) is not None


def _mapping(secrets: Secrets, known: Mapping[str, str]) -> dict[str, str]:
    """What udev or a uevent says of a device, without; a short secret of its own also in what is made of it."""
    own = [value for key, value in known.items() if _is_secret(key, value, known)]
    return {
        secrets.within(key): secrets.whole(value)
        if _is_secret(key, value, known)
        else secrets.within(secrets.words(value, own) if key == "DEVLINKS" or key in _COMPOSED else value)
        for key, value in known.items()
    }


def _is_secret(key: str, value: str, known: Mapping[str, str]) -> bool:
    if key in _COMPOSED:
        # Without a serial number it is made of the vendor and the model.
        vendor, model = (plain(known.get(key.replace("SERIAL", part), "")) for part in ("VENDOR", "MODEL"))
        short = [plain(known.get(f"{name}_SHORT", "")) for name in _COMPOSED]
        return plain(value) not in (model, vendor + model) and not any(s and s in plain(value) for s in short)
    return _KEY.fullmatch(key) is not None


def _learned(recording: Mapping[str, Any]) -> Secrets:
    """All that is secret in a recording, but for names. In the order of its text, so that it always counts alike."""
    paths = [*recording["files"], *recording["links"], *recording["folders"]]
    public = _public(recording, paths)
    names = (part for path in paths if path.startswith("/sys/") for part in _NAMED.sub("", path).split("/"))
    secrets = Secrets(name for name in names if plain(name) in public or not _UUID.fullmatch(name))
    _learn_shapes(secrets, recording, public)
    for path, text in sorted(recording["files"].items()):
        name = path.rpartition("/")[2]
        if name == "uevent":
            _learn_mapping(secrets, dict(line.partition("=")[::2] for line in text.split("\n")))
        elif _holds_id(path, text):
            _learn(secrets, text)
        elif _ADDRESS.fullmatch(name):
            _learn_addresses(secrets, text)
    for _, known in sorted(recording["properties"].items()):
        _learn_mapping(secrets, known)
    for source in (*_servers(recording), *(one[2] for one in recording.get("addresses", []))):
        _learn_addresses(secrets, source)
    for text in (recording["files"].get("/proc/self/mountinfo", ""), *recording["links"]):
        for uuid in re.findall(r"/by-(?:part)?uuid/([^ /\n]+)", text):
            secrets.add(uuid, shape=True)
    return secrets


def _public(recording: Mapping[str, Any], paths: Iterable[str]) -> set[str]:
    """The UUIDs that are those of a kind of device or partition."""
    public = {plain(uuid) for path in paths if _PUBLIC.search(path) for uuid in _UUID.findall(_told(recording, path))}
    return public | {plain(known.get("ID_PART_ENTRY_TYPE", "")) for known in recording["properties"].values()}


def _learn_shapes(secrets: Secrets, recording: Mapping[str, Any], public: Collection[str]) -> None:
    for text in sorted({*_texts(recording)}):
        for shape in _SHAPES:
            for found in shape.findall(text):
                if not _MULTICAST.fullmatch(found) and plain(found) not in public:
                    secrets.add(found, shape=True)


def _told(recording: Mapping[str, Any], path: str) -> str:
    return f"{path} {recording['files'].get(path, '')}"


def _learn_mapping(secrets: Secrets, known: Mapping[str, str]) -> None:
    for key, value in sorted(known.items()):
        if _is_secret(key, value, known):
            _learn(secrets, value)
        elif _ADDRESS.fullmatch(key):
            _learn_addresses(secrets, value)
    _learn_addresses(secrets, " ".join(re.findall(r"(?:^|-)ip-([0-9.]+)", known.get("ID_PATH", ""))))


def _learn(secrets: Secrets, value: str) -> None:
    """A value of a place for secrets: what of it is one."""
    for secret in _secret_parts(value.strip(" \t\n\0")):
        secrets.add(secret)


def _learn_addresses(secrets: Secrets, value: str) -> None:
    """IP addresses, and the WWNs of Fibre Channel's ends."""
    for address in addresses(value):
        secrets.add_address(address)
    for wwn in re.findall("0x([0-9a-f]{16})", value):
        secrets.add(wwn)


def _secret_parts(value: str) -> list[str]:
    """What is left of an id without what tells of which kind it is."""
    kind, dot, rest = value.partition(".")
    if dot and kind in ("naa", "eui", "uuid"):
        return [rest]
    if dot and kind == "t10":
        return value.split()[-1:]  # after vendor and model
    if coded := re.match(r"nvme\.[0-9a-f]{4}-((?:[0-9a-f]{2})+)-", value):
        return [bytes.fromhex(coded[1]).decode("utf-8", "surrogateescape")]
    if re.match(r"(part\d+-)?(LVM|CRYPT|mpath)-", value):
        pieces = [piece for piece in value.split("-") if len(piece) >= 12]
        return [half for piece in pieces for half in ([piece[:32], piece[32:]] if len(piece) == 64 else [piece])]
    if mac := re.fullmatch("[a-z]{2}x([0-9a-f]{12})", value):
        return [mac[1]]
    if kind in ("nqn", "iqn"):
        return value.partition(":")[2].split(":")[-1:]
    return [value.removeprefix("0x")]


def _hosts(recording: Mapping[str, Any]) -> Iterator[str]:
    """The names of this machine and of the ones that its file systems are on."""
    name = str(recording.get("hostname", ""))
    for known in recording["properties"].values():
        home, colon, _ = known.get("MD_NAME", "").partition(":")
        if colon:
            yield home
    servers = (found[1] for source in _servers(recording) if (found := _SERVER.match(source)))
    yield from (host for host in dict.fromkeys((name, *servers)) if not addresses(host))


def _servers(recording: Mapping[str, Any]) -> list[str]:
    """The sources of network file systems, such as server:/export."""
    after = [line.partition(" - ")[2] for line in recording["files"].get("/proc/self/mountinfo", "").split("\n")]
    found = [fields for line in after if len(fields := line.split(" ")) > 1]
    return [fields[1] for fields in found if _NETWORK.fullmatch(fields[0]) and re.search("[:/]", fields[1])]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
