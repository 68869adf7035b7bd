"""usb: USB devices. Each counts once, even if it has several interfaces or nodes in /dev."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.model.host import Host, link_name
from capacityd.schema.device import Device, DeviceDetector, DeviceKey, read_name
from capacityd.schema.matchers import Value
from capacityd.schema.value_types import Flag, HexId, Kind, Text

_DEVICES = "/sys/bus/usb/devices"
_HUB_CLASS = "09"  # bDeviceClass, https://www.usb.org/defined-class-codes
_ID_TYPE = HexId(digits=4)


def find(host: Host) -> Iterator[Device]:
    """Yields every device except the controllers' root hubs (usb1, usb2, …)."""
    for name in host.listdir(_DEVICES):
        is_interface = ":" in name
        is_root_hub = name.startswith("usb")
        if not is_interface and not is_root_hub:
            yield Device(path=f"{_DEVICES}/{name}", name=name)


def _attribute_key(name: str, kind: Kind, about: str) -> DeviceKey:
    """A key whose value is the content of a file in the device's folder in /sys. name: the file's name."""
    return DeviceKey(kind, lambda host, device: host.text(f"{device.path}/{name}"), about)


def _interface_paths(host: Host, device: Device) -> list[str]:
    """The paths of the device's interfaces, such as 1-1:1.0."""
    return [f"{device.path}/{name}" for name in host.listdir(device.path) if name.startswith(f"{device.name}:")]


def _classes(host: Host, device: Device) -> Value:
    """Class, subclass and protocol of the device and of each interface. Class 00, which means that the interfaces
    define the class, is left out."""
    codes = {_class_code(host, device.path, prefix="bDevice")}
    codes.update(_class_code(host, path, prefix="bInterface") for path in _interface_paths(host, device))
    return tuple(sorted(code for code in codes if code and not code.startswith("00")))


def _class_code(host: Host, path: str, *, prefix: str) -> str:
    """Class, subclass and protocol, two hexadecimal digits each; "" if any of the three is missing.

    path: the folder of the device or interface. prefix: the beginning of the names of its files, such as bDeviceClass.
    """
    parts = [host.text(f"{path}/{prefix}{part}") or "" for part in ("Class", "SubClass", "Protocol")]
    return "".join(parts).lower() if all(parts) else ""


def _drivers(host: Host, device: Device) -> Value:
    """The drivers of the device and its interfaces, without "usb", the generic driver of most devices."""
    paths = [device.path, *_interface_paths(host, device)]
    names = {link_name(host, f"{path}/driver") for path in paths}
    return tuple(sorted(name for name in names if name and name != "usb"))


def _is_hub(host: Host, device: Device) -> Value:
    return host.text(f"{device.path}/bDeviceClass") == _HUB_CLASS


DETECTOR = DeviceDetector(
    name="usb",
    about="USB devices; hubs count only with hub = true",
    find=find,
    keys={
        "vendor": _attribute_key("idVendor", _ID_TYPE, "vendor id, four hexadecimal digits"),
        "product": _attribute_key("idProduct", _ID_TYPE, "product id, four hexadecimal digits"),
        "serial": _attribute_key("serial", Text(), "serial number; many devices have none"),
        "manufacturer": _attribute_key("manufacturer", Text(), "manufacturer, as the device reports it"),
        "model": _attribute_key("product", Text(), "product name, as the device reports it"),
        "class": DeviceKey(
            HexId(digits=6, prefix_matches=True),
            _classes,
            "class, subclass and protocol of the device or any of its interfaces",
        ),
        "driver": DeviceKey(Text(), _drivers, "driver of the device or any of its interfaces"),
        "port": DeviceKey(
            Text(), read_name, "the port that the device is plugged into, such as 1-1.2; the same after a replug"
        ),
        "hub": DeviceKey(Flag(), _is_hub, "whether the device is a hub"),
    },
    identifying_keys=("vendor", "product", "serial", "port"),
    model_keys=("vendor", "product"),
    defaults={"hub": False},
    udev_subsystems=("usb",),
    vendor_name_key="manufacturer",
    model_name_key="model",
)
