"""Lists what a recording contains of /sys and udev's database. tests/corpus/recorded.md lists the other contents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import translate

from capacityd.host.automounts import mount_settings, source_without_tag
from capacityd.host.lower_disks import DEVICE_OPTIONS, LAYER_OPTIONS
from capacityd.host.system_disks import is_of_system
from capacityd.linux.mountinfo import AUTOMOUNT_OPTIONS, READ_ONLY_OPTIONS, SUBVOLUME_OPTION, mount_of


def _names(separated_by_spaces: str) -> frozenset[str]:
    return frozenset(separated_by_spaces.split())


TREES = _names(
    """
    /sys/block /sys/bus /sys/class /sys/dev/block /sys/devices /sys/firmware/devicetree/base
    /sys/fs/bcachefs /sys/fs/btrfs /sys/power
    """
)
"""Folders whose entries a recording lists completely. Of other folders, a recording contains single files."""

ATTRIBUTES = _names(
    """
    acpi_index active active_mode active_slave ad_select addr_assign_type addr_len adr afg alignment_offset ana_state
    ari_enabled array_size array_state authorized autoclear backing_dev backing_file bAlternateSetting base bcdDevice
    bConfigurationValue bDeviceClass bDeviceProtocol bDeviceSubClass bInterfaceClass bInterfaceNumber
    bInterfaceProtocol bInterfaceSubClass bios_date bios_release bios_vendor bios_version bMaxPacketSize0 bMaxPower
    bNumConfigurations bNumEndpoints bNumInterfaces board_name board_vendor board_version boot_vga busnum bustype
    capability carrier chassis_type chassis_vendor chassis_version chip_name chunk_sectors chunk_size class clock_name
    cntlid cntrltype compatible component_size configuration consistent_dma_mask_bits core_id country cpulist
    cur_bus_speed current_link_speed current_link_width dax degraded dev dev_id dev_port device device_name devnum
    devpath die_id discard_alignment discard_granularity discard_max_bytes diskseq distance dma_mask_bits dormant
    driver_override duplex ec_firmware_release enable enabled ext_range features firmware_rev flags fua fw_ver
    fw_version fwrev generation hca_type hid hidden hw_rev hw_sector_size hwrev idProduct idVendor ifindex iflink
    index inhibited interface io_type iopolicy irq label lacp_rate layout level line link_mode local_cpulist
    local_cpus logical_block_size manfid manufacturer max_brightness max_bus_speed max_hw_sectors_kb max_link_speed
    max_link_width max_sectors_kb maxchild memory_mib metadata_version mfg mii_status miimon minimum_io_size modalias
    mode model modelname modes mount_tag msi_bus mtu name name_assign_type netdev_group ngpio node_type nomerges
    nr_requests nr_zones nsid numa_node number nvm_version oemid online operstate optimal_io_size parent partition
    path pcm_class phys phys_port_name physical_block_size physical_package_id port port_state port_type possible
    present primary proc_name product product_family product_id product_name product_sku product_version properties
    proto_down queue_count queue_depth raid_disks range rate read_ahead_kb removable rev revision revision_id ro
    rotational rx_lanes scheduler scsi_level secondary_bus_number security size slaves slots speed
    sriov_drivers_autoprobe sriov_numvfs sriov_offset sriov_stride sriov_totalvfs sriov_vf_device stable_writes start
    state status subordinate_bus_number subsystem_device subsystem_id subsystem_vendor subsystype supported_mode
    supported_speeds suspended sys_vendor tpm_version_major transport tx_lanes tx_queue_len type uartclk uevent uid
    vendor vendor_id vendor_name version write_cache xmit_hash_policy zoned
    """
)
"""Names of attributes to record. Reading them does not block, access hardware or change anything."""

FOLDERS = _names("bonding capabilities dm dsa holders id loop md queue slaves")
"""Names of a device's subfolders to record. Other subfolders are recorded only if links show that they are devices."""

ATTRIBUTE_IDENTIFIERS = _names(
    """
    *_asset_tag *_guid *_sas_address *_serial *_serial_number *_uuid address board_tracer broadcast cid
    enclosure_identifier eui fabric_name guid hostid hostnqn initiatorname nguid node_name perm_hwaddr phys_port_id
    phys_switch_id port_name sas_address serial serial-number serial_num serial_number serialnum sn subsysnqn
    targetname uniq unique_id uuid wwid wwn
    """
)
"""Patterns of names of attributes whose content is an identifier."""

PROPERTIES = _names(
    """
    ABS AMBA_ID BUSNUM CURRENT_TAGS DEVLINKS DEVMODE DEVNAME DEVNUM DEVPATH DEVTYPE DISKSEQ DM_LV_NAME DM_NAME DM_TYPE
    DM_VG_NAME DRIVER EV HID_ID HID_NAME HID_PHYS ID_ATA ID_ATA_* ID_AUTOSUSPEND ID_BUS ID_CDROM ID_CDROM_* ID_DRIVE_*
    ID_FOR_SEAT ID_FS_BLOCKSIZE ID_FS_LABEL ID_FS_LABEL_ENC ID_FS_LASTBLOCK ID_FS_SIZE ID_FS_TYPE ID_FS_USAGE
    ID_FS_VERSION ID_GPHOTO2 ID_IGNORE_DISKSEQ ID_INPUT ID_INPUT_* ID_INSTANCE ID_INTEGRATION ID_MEDIA_PLAYER ID_MODEL
    ID_MODEL_ENC ID_MODEL_FROM_DATABASE ID_MODEL_ID ID_NAME ID_NET_DRIVER ID_NET_LINK_FILE ID_NET_NAME ID_NET_NAME_*
    ID_NET_NAMING_SCHEME ID_NSID ID_PART_ENTRY_DISK ID_PART_ENTRY_FLAGS ID_PART_ENTRY_NAME ID_PART_ENTRY_NUMBER
    ID_PART_ENTRY_OFFSET ID_PART_ENTRY_SCHEME ID_PART_ENTRY_SIZE ID_PART_ENTRY_TYPE ID_PART_TABLE_TYPE ID_PATH
    ID_PATH_* ID_PCI_* ID_REVISION ID_SCSI ID_SCSI_INQUIRY ID_SECURITY_TOKEN ID_SERIAL ID_SMARTCARD_READER
    ID_SOFTWARE_RADIO ID_TYPE ID_USB_CLASS_* ID_USB_DRIVER ID_USB_INSTANCE ID_USB_INTERFACE* ID_USB_MODEL
    ID_USB_MODEL_* ID_USB_PROTOCOL_* ID_USB_REVISION ID_USB_SERIAL ID_USB_TYPE ID_USB_VENDOR ID_USB_VENDOR_* ID_V4L_*
    ID_VENDOR ID_VENDOR_ENC ID_VENDOR_FROM_DATABASE ID_VENDOR_ID IFINDEX INTERFACE KEY LED MAJOR MD_DEVICES MD_DEVNAME
    MD_LEVEL MD_METADATA MINOR MMC_NAME MMC_TYPE MODALIAS MSC NAME NVME_TRTYPE OF_* PARTN PARTNAME PCI_* PHYS PRODUCT
    PROP REL SCSI_MODEL SCSI_MODEL_ENC SCSI_REVISION SCSI_TPGS SCSI_TYPE SCSI_VENDOR SCSI_VENDOR_ENC SERIO_* SND
    SOUND_* SUBSYSTEM SW SYSTEMD_* TAGS TYPE USB_UDC_* USEC_INITIALIZED
    """
)
"""Patterns of names of properties, in udev's database and in uevent files. Only the identifiers in their values are
replaced."""

PROPERTY_IDENTIFIERS = _names(
    """
    *EUI *EUI64 *GUID *NAA_* *PARTUUID *SERIAL_NUMBER *SERIAL_SHORT *UNIQ *UUID *UUID_ENC *UUID_SUB *UUID_SUB_ENC
    *WWID *WWN *WWN_* DM_SERIAL ID_SCSI_SERIAL MAC SCSI_IDENT_*
    """
)
"""Patterns of names of properties that are identifiers. These identifiers are also replaced in other properties.

The recording also replaces the value of a property that is in neither PROPERTIES nor this list."""

VERBATIM = _names("ABS EV ID_PART_ENTRY_TYPE KEY LED MODALIAS MSC PROP REL SND SW")
"""Properties to record unchanged: bit masks and partition types, which only look like identifiers."""


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """A regular expression for all names that match one of these patterns."""
    return re.compile("|".join(map(translate, patterns)))


_IDENTIFYING_ATTRIBUTE = _any_of(ATTRIBUTE_IDENTIFIERS)
_LISTED_PROPERTY = _any_of(PROPERTIES)
_IDENTIFYING_PROPERTY = _any_of(PROPERTY_IDENTIFIERS)


def keeps_file(path: str) -> bool:
    """Whether to record an attribute."""
    folder, _, name = path.rpartition("/")
    # The files in capabilities/ are bit masks of an input device. One of these files is "key". ATTRIBUTES does not list
    # this name, because a file "key" in another folder may contain a secret.
    is_capability = folder.endswith("/capabilities")
    return name in ATTRIBUTES or is_capability or is_identifier(path)


def keeps_folder(path: str) -> bool:
    """Whether to record a folder of a device because of its name. A link may be another reason to record it."""
    return os.path.basename(path) in FOLDERS


def is_identifier(path: str) -> bool:
    """Whether an attribute's content is an identifier."""
    return _IDENTIFYING_ATTRIBUTE.match(os.path.basename(path)) is not None


def keeps_property(name: str) -> bool:
    """Whether to keep a property's value, except for the identifiers in it."""
    return _LISTED_PROPERTY.match(name) is not None and not is_identifying_property(name)


def is_identifying_property(name: str) -> bool:
    """Whether a property's value is an identifier."""
    return _IDENTIFYING_PROPERTY.match(name) is not None


def mounts_without_options(table: str) -> str:
    """The mount table to record: without users and passwords, and without most options of file systems.

    The table keeps the options about writes, the subvolume, the kind of an automount, the upper layer of an overlay,
    and DEVICE_OPTIONS. For the machine's own file systems, it also keeps the options with an overlay's other layers.
    """
    return "".join(f"{_mount_without_options(line)}\n" for line in table.split("\n") if line)


def unit_without_options(text: str) -> str:
    """The unit of a mount to record: only the mount's type and point, and the source if it is a block device."""
    settings = mount_settings(text.split("\n"))
    source = source_without_tag(settings.get("What", ""))
    is_block_device = source.startswith("/dev/")
    kept_names = ("What", "Where", "Type") if is_block_device else ("Where", "Type")
    lines = [f"{name}={settings[name]}\n" for name in kept_names if name in settings]
    return "".join(["[Mount]\n", *lines])


def _mount_without_options(line: str) -> str:
    """The line of the mount table to record. A malformed line stays unchanged."""
    mount = mount_of(line)
    if mount is None:
        return line
    kept_names = {*DEVICE_OPTIONS, *READ_ONLY_OPTIONS, *AUTOMOUNT_OPTIONS, "upperdir"}
    if is_of_system(mount.point):
        kept_names.update(LAYER_OPTIONS)
    if mount.is_subvolume:
        kept_names.add(SUBVOLUME_OPTION)  # the subvolume is no secret: it is also the mount's root in this line
    rw_or_ro, *others = mount.options.split(",")
    kept_options = [option for option in others if option.partition("=")[0] in kept_names]
    options = ",".join([rw_or_ro, *kept_options])
    before_hyphen, hyphen, after_hyphen = line.partition(" - ")
    _type, escaped_source, *_ = after_hyphen.split(" ")
    source = re.sub("//[^/@]*@", "//", escaped_source)  # without user and password: //user:password@server/share
    return f"{before_hyphen}{hyphen}{mount.type} {source} {options}"
