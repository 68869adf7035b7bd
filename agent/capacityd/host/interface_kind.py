"""The kind of a network interface: a port of the machine, an interface that shares a port, or one without a port.

The kinds are those by which the configuration selects interfaces (_KINDS in detectors/nic.py). In all functions, the
parameter hardware is the path in /sys of the interface's device, such as a PCI function.

The tables cover Linux 6.1 to 6.18: all callers of SET_NETDEV_DEVTYPE and SET_NETDEV_DEV, and the bus_types of the
devices that these callers pass.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from capacityd.host.system_interfaces import linked_ifindex, lower_interfaces
from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.model.host import Host, device_and_above, link_name, read_optional_attr, resolve_link, uevent_value

_NETWORK_TYPES = ("1", "32")  # ARPHRD_ETHER, ARPHRD_INFINIBAND
_WIRELESS_DEVTYPES = ("bluetooth", "wlan", "wwan")
_SOFTWARE_DEVTYPES = ("bond", "bridge", "vlan")
_GADGET_DEVTYPE = "gadget"  # the machine acts as a USB device: drivers/usb/gadget/function/u_ether.c
_SWITCH_PORT_DEVTYPE = "dsa"  # net/dsa/user.c

_PORT_BUSES = (
    "pci", "usb", "platform", "auxiliary", "pcmcia", "sdio", "thunderbolt", "ntb_transport",
    "virtio", "xen", "vmbus", "vio", "ibmebus", "ccwgroup", "iucv",
    "fsl-mc", "cdx", "ssb", "bcma", "spi", "i2c", "mdio_bus", "serial",
)  # fmt: skip
"""Buses whose devices are network ports of the machine or of the virtual machine. The buses spi, i2c and mdio_bus also
have switches (DSA), whose ports count."""

_OTHER_BUSES: Mapping[str, str] = {
    "xen-backend": "virtual",  # the host's end of a guest's interface: drivers/net/xen-netback
    "vdpa": "virtual",
    "netdevsim": "virtual",  # simulated hardware
    "gadget": "other",
    "mhi": "other",  # a modem or accelerator inside the machine: drivers/net/mhi_net.c
    "most": "other",  # the network of a car's entertainment system
}
"""Bus whose devices are not ports -> the kind of their interfaces."""

_ID_ATTRIBUTES: Mapping[str, tuple[str, str]] = {"usb": ("idVendor", "idProduct"), "pci": ("vendor", "device")}
"""Bus -> the names of the attributes with the ids of vendor and product."""
_BLUEFIELD_DRIVER = "mlxbf-tmfifo"
"""The driver of the link between a BlueField card and its host. Below the driver's device is a virtio device."""
_BMC_IDS = (
    ("413c", "a102"),  # iDRAC
    ("03f0", "2927"),  # iLO
    ("04b3", "4010"),  # IMM and XCC
    ("046b", "ffb0"),  # AMI
    ("0b1f", "03ee"),  # Supermicro
)
"""USB vendor and product of the interfaces that lead to service processors."""


def software_kind(host: Host, path: str) -> str | None:
    """The kind of a bond, bridge, VLAN, team or child of another interface; None for any other interface.

    path: the interface in /sys. Raises HostError.
    """
    devtype = uevent_value(host, path, name="DEVTYPE")
    if devtype in _SOFTWARE_DEVTYPES:
        return devtype
    if _is_child(host, path, devtype=devtype):
        return "virtual"
    # The driver of teams sets neither DEVTYPE nor a device.
    if devtype or host.resolve(f"{path}/device") is not None:
        return None
    name = os.path.basename(path)
    if not lower_interfaces(host, name):  # a team without members counts as any other interface
        return None
    # Only netlink shows whether an interface is a team.
    return "team" if host.link_kind(name) == "team" else None


def _is_child(host: Host, path: str, devtype: str | None) -> bool:
    """Whether an interface has hardware, but is a child of another interface (IPoIB). devtype: its DEVTYPE."""
    if devtype == _SWITCH_PORT_DEVTYPE:  # a port, although it uses the interface that connects the switch
        return False
    uses_other_interface = linked_ifindex(host, os.path.basename(path)) != ""
    return uses_other_interface and resolve_link(host, f"{path}/device") is not None


def hardware_kind(host: Host, path: str, hardware: str) -> str:
    """The kind of an interface with hardware: "physical" for a network port that has its hardware to itself.

    path: the interface in /sys. Raises HostError.
    """
    if hardware.startswith("/sys/devices/virtual/"):
        return "virtual"  # simulated hardware, such as mac80211_hwsim
    devtype = uevent_value(host, path, name="DEVTYPE")
    if devtype in _WIRELESS_DEVTYPES:
        return "wireless"
    # Old drivers set no DEVTYPE. Drivers older than cfg80211 also have no phy80211, but a folder wireless
    # (net/core/net-sysfs.c).
    if resolve_link(host, f"{path}/phy80211") or host.resolve(f"{path}/wireless"):
        return "wireless"
    if _is_function_of_port(host, path, hardware=hardware):
        return "vf"
    # On Azure, and with virtio failover, the master of a virtual function is an interface with hardware, unlike a bond
    # or a bridge. The virtual function does not count as a port, because its master does.
    if resolve_link(host, f"{path}/master") and resolve_link(host, f"{path}/master/device"):
        return "vf"
    if _is_representor(host, path):
        return "representor"
    if host.listdir(f"{path}/dsa"):
        return "other"  # the conduit to a switch inside the machine; the switch's ports are separate interfaces
    if devtype == _GADGET_DEVTYPE or host.text(f"{path}/type") not in _NETWORK_TYPES:
        return "other"
    return _kind_by_bus(host, hardware)


def _is_function_of_port(host: Host, path: str, hardware: str) -> bool:
    """Whether the interface's device is a virtual function (SR-IOV) or a subfunction of a port."""
    # A virtio device is below its PCI function.
    possible_functions = (f"{path}/device", os.path.dirname(hardware))
    if any(resolve_link(host, f"{device}/physfn") for device in possible_functions):
        return True
    return ".sf." in os.path.basename(hardware)  # a subfunction has a name such as mlx5_core.sf.4


def _kind_by_bus(host: Host, hardware: str) -> str:
    """The kind of an interface according to the buses of its device and of the devices above."""
    bus = link_name(host, f"{hardware}/subsystem")
    if bus is None:
        return "physical"  # a device without a bus counts as a port of the machine
    if bus in _OTHER_BUSES:
        return _OTHER_BUSES[bus]
    if bus == "virtio" and _is_vdpa(host, hardware):
        # Without a PCI function above, a driver (vdpa_sim) or a program (VDUSE) simulates the device.
        return "vf" if _is_below_pci_function(host, hardware) else "virtual"
    if bus == "virtio" and link_name(host, f"{os.path.dirname(hardware)}/driver") == _BLUEFIELD_DRIVER:
        return "other"
    if bus == "usb" and _is_bmc(host, hardware):
        return "bmc"
    if bus not in _PORT_BUSES:
        error = HostError(f'it is unknown whether a device of the bus "{bus}" is a network port')
        raise AmbiguousValue(error, possible=("physical", "other"))
    return "physical"


def _is_vdpa(host: Host, hardware: str) -> bool:
    """Whether a virtio device is vDPA (drivers/virtio/virtio_vdpa.c): a part of a network card, or simulated.

    The parent of a vDPA device is a device of the bus vdpa, or the PCI function of the network card. The parent of a
    hypervisor's virtio device may also be a PCI function, but one with the driver virtio-pci.
    """
    parent = os.path.dirname(hardware)
    parent_bus = link_name(host, f"{parent}/subsystem")
    if parent_bus == "pci":
        driver = link_name(host, f"{parent}/driver")
        return driver is not None and driver != "virtio-pci"
    return parent_bus == "vdpa"


def _is_below_pci_function(host: Host, hardware: str) -> bool:
    """Whether a device above this one in /sys is a PCI function."""
    parents = (path for path in device_and_above(hardware) if path != hardware)
    return any(link_name(host, f"{path}/subsystem") == "pci" for path in parents)


def _is_representor(host: Host, path: str) -> bool:
    """Whether the interface is the switch port of a virtual function or subfunction: pf0vf1, not p0."""
    port_name = read_optional_attr(host, f"{path}/phys_port_name") or ""
    return "pf" in port_name


def _is_bmc(host: Host, hardware: str) -> bool:
    """Whether the interface leads to the machine's own service processor. hardware: an interface of a USB device."""
    if hardware_ids(host, hardware) in _BMC_IDS:
        return True
    return host.text(f"{os.path.dirname(hardware)}/manufacturer") == "OpenBMC"


def hardware_ids(host: Host, hardware: str) -> tuple[str, str]:
    """Vendor and product of the nearest USB or PCI device: this device, or a device above.

    The ids are without 0x. Both are "" if there is no such device. Raises HostError.
    """
    for path in device_and_above(hardware):
        bus = link_name(host, f"{path}/subsystem") or ""
        if bus in _ID_ATTRIBUTES:
            vendor_attribute, product_attribute = _ID_ATTRIBUTES[bus]
            vendor = host.text(f"{path}/{vendor_attribute}")
            product = host.text(f"{path}/{product_attribute}")
            if vendor is not None and product is not None:
                return vendor.removeprefix("0x"), product.removeprefix("0x")
    return "", ""
