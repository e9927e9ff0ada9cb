"""How each output that people paste is recognised: by a line of its own, never by the file's name.

A format begins at a line that matches `start`. A cut paste may lack that line; `inside` names lines that nothing else
has, and that begin a part where none of the format is open. The patterns are matched at the beginning of a line.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

# line: each line proves itself; indented: the line, and the indented or empty ones below it; block: everything up to the
# start of another part; body: the same, where lines of the format occur all over it and begin no part of their own.
Extent = Literal["line", "indented", "block", "body"]


class Format(NamedTuple):
    """One output; its patterns have no capturing groups, and an empty one matches nothing."""

    kind: str
    extent: Extent
    start: str
    inside: str = ""
    gathers: bool = False  # whether a further start of the same kind belongs to the part that is open


_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
_LSPCI_LINE = (
    r"\s*(?:Capabilities: \[|Status: (?:Cap|D\d)|Region \d: |Control: I/O|Kernel driver in use: |AtomicOpsC|ATSCap: "
    r"|(?:LnkCap|LnkSta|LnkCtl|ACSCtl|ACSCap|DevCap|DevCtl|DevSta)2?:\s)"
)
_TOPO_CODE = r"(?:X|OK|SYS|SOC|NODE|PHB|P[XI][BX]|PSB|NV\d+|[CTG]?NS|DR|U)"
_TOPO_START = r"\s*GPU0\s.{0,4000}CPU Affinity|\s*GPU0\s+X\s+(?:OK|[CTG]?NS|DR|U)(?:\s|$)"
_TOPO_LINE = rf"\s*(?:GPU0\s+(?:GPU1|NIC0|mlx5)|GPU\d+\s+{_TOPO_CODE}\s)"
_SMI_HEAD = r"\+-{60,100}\+\s*$|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\s*$"
_SMI_COMPLAINT = (
    r"(?:Failed|Unable) to initialize NVML: \S|NVIDIA-SMI has failed because|NVIDIA-SMI couldn't find "
    r"|No devices were found\s*$|Unable to determine the device handle for |NVML library version: "
)
_FIELD, _UNIT = r"[a-z_]{1,40}(?:\.[a-z_]{1,40}){0,5}", r"(?: \[[\w/%]{1,9}\])?"
_QUERY_FIELD = r"(?:pcie?\.[a-z._]{1,40}|gpu_bus_id|gpu_name|driver_version|pstate|utilization\.gpu|memory\.total)"
_QUERY_HEADING = (
    rf"(?:{_FIELD}{_UNIT}, ?){{1,60}}{_QUERY_FIELD}{_UNIT}(?:,|\s*$)|{_QUERY_FIELD}{_UNIT}, ?{_FIELD}{_UNIT}(?:,|\s*$)"
)
_QUERY_ROW = r"(?:[^,]{1,80}, ?){0,12}[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.0(?:,|\s*$)"
# What torchrun, Ray, MPI and NCCL's own time stamps put before a line.
_RANK_PREFIX = r"(?:(?:\[[^\]]{1,40}\](?:<std\w{3}>)?:? ?|\([^)]{1,60}\) |\d{1,4}: ){1,2})?"
_RBT_LINE = (
    r"(?:\.{7,}\s*$|\s*(?:Inter-Device (?:Access|Link|Numa)|Device (?:Access|Numa Distance)\s*$|Data Path Validation\s*$"
    r"|Bi?directional copy peak bandwidth GB/s\s*$|Unidirectional copy peak bandwidth GB/s\s*$|Launch Command is: \S"
    r"|Device Index:\s+\d|Device: \d{1,3},  \S)|(?:Src|Dst) Device: Index \d|=+ +(?:Uni|Bi)directional Benchmark Result)"
)
_TRANSFERBENCH_LINE = (
    r"\s*(?:(?:Uni|Bi)directional copy peak bandwidth GB/s \[|Bytes Per Direction,?\s*\d|SRC(?:\+EXE|\\EXE\+)?\\?DST"
    r"|\[ERROR\] Unable to enable peer access from GPU devices \d"
    r"|\[Common\]\s+\(Suppress|\[P2P Related\]|Summary: \[\d+ bytes per Transfer|Transfer \d+ +\| +[\d.]+ GB/s)"
)
_P2P_LINE = (
    r"\s*(?:Device: \d+, .*pciBusID|(?:Uni|Bi)directional P2P=|P2P Connectivity Matrix|P2P=(?:En|Dis)abled "
    r"|Device=\d+ (?:CAN|CANNOT) Access Peer)"
)
_SIMPLE_P2P_LINE = r"\s*(?:\w+MemcpyPeer / \w+Memcpy between GPU\d|> Peer access from |Verification error @ element )"
_NVBANDWIDTH_LINE = (
    r"\s*(?:Running (?:host_to|device_to|all_to|one_to|host_device|device_local|multinode_)\w+\.|SUM \w+_(?:ce|sm) "
    r"|memcpy (?:CE|SM|local) |memory latency SM )"
)
_ROCMINFO = r"HSA Error Found!|ROCk module (?:is|version)|HSA System Attributes|WSL environment detected"
_ROCMINFO_LINE = (
    r"Error: HSA_STATUS_ERROR|Unable to open /dev/kfd|hsa api call failure|Call returned HSA_STATUS_ERROR|hsa_init Failed"
    r"|Agent \d+\s*$"
)
_ROCM_SMI_LINE = (
    r"GPU\[\d+\]\s{1,8}: |ERROR:root:Driver not initialized|cat: /sys/module/amdgpu/initstate"
    r"|=+ (?:(?:Weight|Hops|Link (?:Type|accessibility)) between two GPUs|PCI Bus ID|Concise Info|Product Info|Memory Usage) =+"
)
_AMD_SMI = r"(?:ACCESS|WEIGHT|HOPS|LINK TYPE|NUMA BW) TABLE:|\| AMD-SMI \S|AMDSMI Tool:|GPU: \d+\s*$"
_AMD_SMI_LINE = (
    r"(?:LINK METRIC|CACHE COHERANCY|ATOMICS|DMA|BI-DIRECTIONAL) TABLE:|gpu,\w+,"
    r"|ERROR:root:(?:Drivers not loaded|Unable to (?:get|detect any GPU) devices)"
)
_HEX_DUMP = r"[0-9a-f]{2,3}: (?:[0-9a-f]{2} ){7,15}[0-9a-f]{2}\s*$"
# The kernel's log. Before a stamp: what grep adds, the raw buffer's priority, what dmesg --decode adds.
_MONTH = r"(?:[^\W\d]{2,6}\.?|\d{1,2}[^\W\d]),? {1,2}\d{1,2},? "  # in any language: "févr. 11 ", "2月 11 "
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z|[+-][\d:]{2,6})"
_BEFORE = (
    r"[ \t]{0,8}(?:[-*|`] ?`?(?=[\[<]))?(?:[\w./+-]{1,120}:)?(?:\d{1,7}[:-])?(?:<\d{1,3}>)?(?:[a-z0-9]{3,8} *:[a-z]{3,6} *: ?)?"
)
_SINCE_BOOT = r"\[ {0,7}\d{1,9}\.\d{3,9}(?: *<[ +-]*\d{1,9}\.\d{1,9} *>)?\](?: ?\[ *[TC]\d[^\]]{0,30}\])? ?"
_RELATIVE = r"\[ *\+\d{1,9}\.\d{3,9}\] |\[[^\W\d]{3}[ \d]\d \d\d:\d\d\] "  # dmesg --reltime
_STAMP = rf"(?:{_SINCE_BOOT}|{_RELATIVE}|\[(?:[^\W\d]{{1,6}}\.?,? +)?{_MONTH}{_CLOCK} \d{{4}}\] )"
_DATED = rf"(?:{_MONTH}(?:\d{{4}} )?{_CLOCK}(?: \d{{4}})?|\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:{_ZONE}| [A-Z]{{3,5}})?)"
_PROGRAM = r"(?:\S{1,255} ){0,2}?(?:kernel|[\w.@/-]{1,64}\[\d{1,9}\]|systemd|sudo|CRON|rsyslogd|dbus-daemon)(?:\[n/a\])?: ?"
_DRIVER = r"[a-z][\w-]{1,24} [0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?::[\w:]{1,20})?: "
_SUBSYSTEM = (
    r"(?:NVRM|AMD-Vi|DMAR(?:-IR)?|\[drm(?::\w+)?(?: \[\w+\])?\]|kfd(?: kfd)?|amdgpu|nouveau|nvidia(?:-\w+)?|iommu|DMI|smpboot"
    r"|pci_bus [0-9a-f:]{7,13}|arm-smmu\S* \S+|pciehp \S+|Hypervisor detected|(?:Kernel c|C)ommand line): ?\S"
    r"|\[drm(?::\w+)?\] \S|PCI host bridge to bus "
    r"|nvidia-nvswitch\d+: |Unknown kernel command line parameters |\{\d+\}\[Hardware Error\]: |pcieport \S+: "
)

FORMATS: tuple[Format, ...] = (
    # --- the kernel's log ---------------------------------------------------------------------------------------------
    Format("kernel-log", "line", rf"{_BEFORE}{_STAMP}"),
    Format("kernel-log", "line", rf"{_BEFORE}(?:[^\W\d]{{1,6}}\.? )?{_DATED} {_PROGRAM}"),
    Format("kernel-log", "line", rf"{_BEFORE}\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{{6}}{_ZONE} "),  # dmesg --time-format iso
    Format("kernel-log", "line", rf"{_DATED} (?=\[ *\d{{1,9}}\.\d|<\d{{1,3}}>\[)"),  # docker logs --timestamps
    Format("kernel-log", "line", r"(?:\S{1,64}: )?kern: +[a-z]{3,8}: +\[\d{4}-\d\d-\d\dT[\d:.]{8,18}Z\]:"),  # talosctl dmesg
    Format("kernel-log", "line", r"\d{1,3},\d{1,12},\d{1,16},[^;]{1,80};"),  # /dev/kmsg
    Format("kernel-log", "line", rf"[ \t]{{0,40}}(?:<\d{{1,3}}>)?(?:{_DRIVER}|{_SUBSYSTEM})"),
    Format("kernel-log", "line", r"-- (?:(?:Boot [0-9a-f]{32}|Reboot) --\s*$|(?:Logs begin|Journal begins) at )"),
    # --- PCI ----------------------------------------------------------------------------------------------------------
    Format("lspci", "indented", rf"\s*{_ADDRESS} (?!(?:\S+ ){{0,2}}-> )(?:3D |[A-Z\"(]).*: \S", rf"{_HEX_DUMP}"),
    Format("lspci", "indented", rf"\s*{_ADDRESS} (?:Class )?[0-9a-f]{{4}}: [0-9a-f]{{4}}:[0-9a-f]{{4}}"),  # -n
    Format("lspci-fields", "indented", _LSPCI_LINE),
    Format("lspci-tree", "indented", r"\s*-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-"),
    Format("lspci-machine", "line", rf'{_ADDRESS} "[^"]*" "[^"]*" "'),
    Format("lspci-records", "block", rf"(?:Slot|Device):\s+{_ADDRESS}\s*$"),
    Format("sysfs-listing", "line", r"/sys/(?:bus/pci|devices|class/drm|class/kfd|module)/\S+:"),
    # --- files of the host --------------------------------------------------------------------------------------------
    Format("file:proc/cmdline", "line", r"(?:BOOT_IMAGE=|initrd=\\|root=(?:UUID=|/dev/|ZFS=|PARTUUID=|LABEL=))\S+"),
    Format("file:proc/version", "line", r"Linux version \d"),
    Format("file:proc/driver/nvidia/version", "line", r"NVRM version: NVIDIA UNIX "),
    Format("file:proc/cpuinfo", "block", r"processor\s*: 0\s*$"),
    Format("file:proc/iomem", "line", r"\s*[0-9a-f]{8,16}-[0-9a-f]{8,16} : \S"),
    Format("file:etc/os-release", "line", r"(?:PRETTY_NAME|NAME|VERSION|VERSION_ID|VERSION_CODENAME|ID|ID_LIKE|HOME_URL)=\S"),
    Format("uname", "line", r"Linux \S+ \d+\.\d+\.\d+\S* #\d"),
    Format("sysctl", "line", r"(?:kernel|vm|fs|net|dev|debug|user|abi|sunrpc)\.[\w./-]+ = "),
    Format("lscpu", "block", r"Architecture:\s+(?:x86_64|aarch64|i686)"),
    Format("dmidecode", "block", r"# dmidecode \d", r"Handle 0x[0-9A-F]{4}, DMI type \d+"),
    Format("file:boot/config", "line", r"(?:CONFIG_[A-Z0-9_]+=|# CONFIG_[A-Z0-9_]+ is not set)"),
    # --- boot configuration -------------------------------------------------------------------------------------------
    Format("grub-default", "body", r"#?\s*(?:export\s+)?GRUB_[A-Z_]+\+?=|# If you change this file, run .update-grub"),
    Format("grub-cfg", "body", r"(?:# DO NOT EDIT THIS FILE|### BEGIN /etc/grub\.d/|set timeout_style=|menuentry ['\"])"),
    Format("bls-entry", "block", r"title\s+\S.*$", r"(?:version\s+\d\S*$|options\s+\S*(?:root=|quiet|\$kernelopts))"),
    Format("grubby", "body", r"index=\d+\s*$"),
    Format("bootctl", "body", r"(?:System:\s*$|(?:Current |Default )?Boot Loader(?: Entry| Entries)?:\s*$)"),
    Format("modprobe", "line", r"(?:options|softdep|blacklist|install) [a-z0-9_-]+(?: |$)"),
    # --- NVIDIA -------------------------------------------------------------------------------------------------------
    Format("nvidia-smi", "block", r"\| NVIDIA-SMI ", _SMI_HEAD, gathers=True),
    Format("nvidia-smi", "line", _SMI_COMPLAINT),
    Format("nvidia-smi-q", "block", r"=+NVSMI LOG=+", r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.0\s*$"),
    Format("nvidia-smi-xml", "block", r"\s*<nvidia_smi_log\b", r"<!DOCTYPE nvidia_smi_log"),
    Format("nvidia-list", "block", r"GPU \d{1,2}: \S.{0,80} \(UUID: GPU-", gathers=True),
    Format("nvidia-topo", "block", _TOPO_START, _TOPO_LINE, gathers=True),
    Format("nvidia-query", "block", _QUERY_HEADING, _QUERY_ROW),
    Format("nccl-log", "line", rf"{_RANK_PREFIX}\S{{1,80}}:\d+:\d+ \[\d+\] (?:\S+ ){{0,2}}NCCL (?:INFO|WARN|ERROR|TRACE)"),
    Format("nccl-log", "line", r"(?:(?:\w+/\w+\.cc:\d+ )?NCCL (?:INFO|WARN) \S|[NR]CCL version ?:? ?\d)"),
    Format("topology-xml", "block", r"\s*<system version="),
    Format("hwloc-xml", "block", r"\s*<topology(?: version=\"|>)", r"<!DOCTYPE topology "),
    Format("xml", "line", r"\s*<\?xml "),
    # --- measurements -------------------------------------------------------------------------------------------------
    Format("measuring-run", "line", r"\{\"record\":\"[a-z]{3,12}\","),  # the file of hostdoctor bandwidth
    Format("rocm-bandwidth-test", "block", r"\s*RocmBandwidthTest Version:", _RBT_LINE),
    Format("transferbench", "block", r"\s*TransferBench (?:\(Plugin\) )?v\d", _TRANSFERBENCH_LINE),
    Format("p2p-bandwidth-latency-test", "block", r"\[P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test\]", _P2P_LINE),
    Format("simple-p2p", "block", r"\[.*simpleP2P\w*\] - Starting", _SIMPLE_P2P_LINE),
    Format("nvbandwidth", "block", r"\s*nvbandwidth Version:", _NVBANDWIDTH_LINE),
    # --- AMD ----------------------------------------------------------------------------------------------------------
    Format("rocminfo", "block", _ROCMINFO, rf"{_ROCMINFO_LINE}"),
    Format("rocm-smi", "block", r"=+ ?ROCm System Management Interface ?=+|=+ ROCm SMI ", rf"{_ROCM_SMI_LINE}"),
    Format("amd-smi", "block", _AMD_SMI, rf"{_AMD_SMI_LINE}"),
    # --- the user and device files ------------------------------------------------------------------------------------
    Format("device-files", "line", r"[cbdl][rwxsStT-]{9}[.+@]? +\d+ \S+ +\S+ +\d|total \d+\s*$|/dev(?:/dri)?:\s*$"),
    Format("device-files", "line", r"ls: .{1,60}/dev/(?:kfd|dri|nvidia)"),
    Format("file-acls", "line", r"# (?:file: dev/|owner: |group: )\S|(?:user|group|mask|other):[^:\s]*:[rwx-]{3}"),
    Format("user-ids", "line", r"uid=\d+"),
    Format("user-groups", "line", r"[a-z_][\w-]* : [a-z_][\w-]*(?: [a-z_][\w-]*)*\s*$"),
    Format("memlock", "line", r"max locked memory\s"),
    Format("json", "block", r"[\[{]\s*(?:$|[\[{\"])"),
)  # fmt: skip


# Commands whose output cannot be told by its lines alone.
_BY_COMMAND = ((re.compile(r"nvidia-smi .{0,200}--query-gpu\b"), "nvidia-query"),)


def of_command(command: str) -> Format | None:
    """The format that a command prints, where its output need not say what it is."""
    kind = next((kind for pattern, kind in _BY_COMMAND if pattern.search(command[:400])), "")
    return next((format_ for format_ in FORMATS if format_.kind == kind), None)


class Recogniser(NamedTuple):
    """All patterns as one."""

    pattern: re.Pattern[str]
    by_group: dict[str, tuple[Format, bool]]  # the format, and whether it is its start


@cache
def recogniser() -> Recogniser:
    """The patterns of all formats, compiled when a paste is first read."""
    parts, groups = [], {}
    for number, each in enumerate(FORMATS):
        for letter, text in (("s", each.start), ("i", each.inside)):
            if text:
                groups[f"{letter}{number}"] = (each, letter == "s")
                parts.append(f"(?P<{letter}{number}>{text})")
    return Recogniser(re.compile("|".join(parts)), groups)
