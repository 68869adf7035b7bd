"""usb: USB devices, each counted once however many interfaces or /dev nodes it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.host import Host, last_name
from capacityd.kinds import Flag, HexId, Text
from capacityd.model import Device, DeviceDetector, Key, Value

_DEVICES = "/sys/bus/usb/devices"
_HUB = "09"  # bDeviceClass, https://www.usb.org/defined-class-codes


def find(host: Host) -> Iterator[Device]:
    """All devices. Names with a colon are interfaces; usb1, usb2, … are the controllers' own root hubs."""
    for name in host.names(_DEVICES):
        if ":" not in name and not name.startswith("usb"):
            yield Device(f"{_DEVICES}/{name}", name)


def _attribute(name: str) -> Callable[[Host, Device], Value]:
    return lambda host, device: host.text(f"{device.path}/{name}")


def _interfaces(host: Host, device: Device) -> list[str]:
    return [f"{device.path}/{name}" for name in host.names(device.path) if name.startswith(f"{device.name}:")]


def _classes(host: Host, device: Device) -> Value:
    """Class, subclass and protocol of the device and of each interface: class 00 means "look at the interfaces"."""
    found = [_class(host, device.path, "bDevice")]
    found += [_class(host, path, "bInterface") for path in _interfaces(host, device)]
    return tuple(sorted({c for c in found if c and not c.startswith("00")}))


def _class(host: Host, path: str, prefix: str) -> str:
    parts = [host.text(f"{path}/{prefix}{part}") or "" for part in ("Class", "SubClass", "Protocol")]
    return "".join(parts).lower() if all(parts) else ""


def _drivers(host: Host, device: Device) -> Value:
    """Drivers take interfaces; the device itself has the kernel's general "usb", which says nothing."""
    found = [host.resolve(f"{path}/driver") for path in [device.path, *_interfaces(host, device)]]
    return tuple(sorted({name for path in found if (name := last_name(path)) and name != "usb"}))


def _is_hub(host: Host, device: Device) -> Value:
    found = host.text(f"{device.path}/bDeviceClass")
    return None if found is None else found == _HUB  # None: it went away


def _modalias(host: Host, device: Device) -> str | None:
    """As udev's rules ask for USB devices (builtin hwdb --subsystem=usb); the kernel has one for interfaces only."""
    vendor, product = host.text(f"{device.path}/idVendor"), host.text(f"{device.path}/idProduct")
    return f"usb:v{vendor.upper()}p{product.upper()}" if vendor and product else None


DETECTOR = DeviceDetector(
    name="usb",
    about="USB devices; hubs are left out unless hub = true",
    find=find,
    keys={
        "vendor": Key(HexId(4), _attribute("idVendor"), "vendor id, four hexadecimal digits"),
        "product": Key(HexId(4), _attribute("idProduct"), "product id, four hexadecimal digits"),
        "serial": Key(Text(), _attribute("serial"), "serial number; many devices have none"),
        "manufacturer": Key(Text(), _attribute("manufacturer"), "manufacturer, as the device says it"),
        "model": Key(Text(), _attribute("product"), "product name, as the device says it"),
        "class": Key(
            HexId(6, prefix=True), _classes, "class, subclass and protocol of the device or any of its interfaces"
        ),
        "driver": Key(Text(), _drivers, "driver of the device or any of its interfaces"),
        "port": Key(
            Text(),
            lambda _, device: device.name,
            "where it is plugged in, such as 1-1.2; stays the same after a replug",
        ),
        "hub": Key(Flag(), _is_hub, "whether it is a hub"),
    },
    identity=("vendor", "product", "serial", "port"),
    alike=("vendor", "product"),
    defaults={"hub": False},
    subsystems=("usb",),
    modalias=_modalias,
    words=("manufacturer", "model"),
)
