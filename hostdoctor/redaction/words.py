"""Names that are nobody's own: what installers, distributions and tools call things everywhere.

A host or a user can bear the name of something else ("node7", "max"): such a name is replaced only where its place says
that it is one, since anywhere else it would be torn out of what a parser or a reader needs.
"""

from __future__ import annotations

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Accounts that every system has, and those of the distributions' build machines.
SYSTEM_USERS = _set(
    """
    root nobody daemon bin sys sync games man lp mail news uucp proxy backup list irc gnats adm operator ftp halt
    shutdown messagebus syslog dbus polkitd chrony ntp rpc rpcuser sshd tss colord avahi rtkit geoclue gdm lightdm
    sddm postfix systemd-network systemd-resolve systemd-timesync systemd-coredump systemd-journal nvidia-persistenced
    munge slurm render video input kvm audio tty disk kmem utmp staff users wheel sudo docker lxd plugdev dialout
    cdrom netdev ssl-cert buildd mockbuild kojibuilder build-user nixbld builder dvs-builder buildbot abuild linuxbrew
    lost+found
    """
)

# Who built the distributions' kernels, on hosts that are nobody's secret.
BUILDERS = _set(
    """
    buildd mockbuild kojibuilder build build-user nixbld builder dvs-builder buildbot abuild geeko linux
    """
)

# Names of hosts that say nothing.
COMMON_HOSTS = _set(
    """
    localhost localhost4 localhost6 ip6-localhost none (none) archiso archlinux debian ubuntu fedora proxmox pve
    raspberrypi nixos gentoo buildhost tumbleweed centos rocky almalinux
    """
)

# Of people whose drivers name them in every host's log, and of services, not of who runs this host.
PUBLIC_EMAILS = _set(
    """
    giometti@linux.it jason@zx2c4.com maxk@qualcomm.com dm-devel@redhat.com git@github.com git@gitlab.com
    """
)

# Words that tools print, in lower case. A name that is among them is not looked for in running text.
_WORDS = _set(
    """
    ack acpi ada address admin adm agent all alloc amd amdgpu ampere and any arch arm art asic ats attach auto aux bad
    band bar bars base bash bay bench bill bin bios bit blackwell block blue board boot bound box bridge bug bus byte
    cable cache can cap card case cat cell chance channel check chip class clear client clock cluster cmd code cold
    command compute config container control cool copy core count cpu cpus crash cuda current cut data date day deb
    debian debug deep default del demo desktop dev device devices dell dgx dict dir disk dma dmesg docker domain done
    down drive driver drm drop dump early edge email end engine entry epyc error eth even event example exec exit
    express fabric failed fan fast fault fedora field file fire firmware flag flash flow fox free from full fuse gate
    geforce gen generic gentoo get good gpu gpus grace grant green grid group grub guest guide guy hal hand handle
    hang hard head header heat help hex high hint hip hive home hook hopper host hosts hot hub ice idle image index
    info init input instinct int intel internal invalid iommu issue item jack job jump kernel key kfd kind lab lan
    lane lap laptop last lead left len level lib light limit line link linux list live load local lock log long loop
    lost low machine main major man map mark mask master match max mbps mem memory mesh message min mint minor miss
    mode model modem module more mount move name nas native navi net network new nic nil node none normal not null
    numa nvidia nvlink nvme off old only open opt option order org out own pack page pair park part pass path pat
    pattern pax pay pci pcie peer pen per perf phy pin ping pipe pix plain plane port power prefix press print proc
    process prod product pve quadro quick quiet queue race rack radeon ram random range rank rate raw ray reach read
    ready real record red redacted region rel report reset rest rev rich right ring rob robin rock rocky rocm rom root
    round route rule run ryzen safe sample sandy scale scan sea search sec secure send serial server service set
    shadow share short sid signal size skip sky sleep slot slow small smart smi snoop soc socket soft solid sort
    source space spare spec speed spot stack stage star start state static station status step stop storage store
    storm stream string sub suite sum super support suse switch sync system sys table tag tail tank task temp tensor
    term terra tesla test thread threadripper tie time timer tip token tom tool top topology total trace track train
    tree true try turbo turing type ubuntu unit unknown up update upper use user users valid value vega vendor verge
    version very vfio view virtual vm volta wait wake wall ward warn water wave way web west wide width will window
    windows wood word work worker workstation write xeon xid yes young zero zone
    almalinux alpine centos coreos endeavouros flatcar limine manjaro nixos opensuse oracle popos proxmox raspberrypi
    redhat refind rhel systemd talos xen
    """
)

# Numbered parts of a machine, products by their short names, and plain numbers.
_PARTS = re.compile(
    r"(?:node|gpu|cpu|card|nvme|eth|eno|bus|pci|numa|rank|socket|slot|port|core|disk|hub|usb|lane|link|nic|worker|channel|ring"
    r"|sd[a-z]|hd[a-z]|vd[a-z]|md|dm|tty\w{0,4}|gfx|sm|nv|mlx|ib|tcp|udp|ipv|level|type|stage|step|mi|rtx|gtx|arc|rx)?[_-]?\d{0,12}"
    r"|[a-z]\d{2,4}[a-z]{0,3}|\d{1,4}[a-z]{1,4}|[a-z]{0,2}|x86(?:_64)?|amd64|aarch64|arm64"
)


def is_common(name: str) -> bool:
    """Whether a name is also that of something else, so that only its place can tell which of both it is."""
    lowered = name.lower()
    return lowered in _WORDS or lowered in SYSTEM_USERS or _PARTS.fullmatch(lowered) is not None


# Volume groups, volumes, pools and labels as installers name them.
_COMMON_DISK = re.compile(
    r"control|(?:mpath[a-z]{1,3}|crypt(?:root|swap|home|data|lvm)?|root|swap|home|var|tmp|data|boot|efi|esp|system|os|linux)(?:fs|vol)?"
    r"|(?:ubuntu(?:--|-)vg|debian(?:--|-)vg|pve|cl|rhel|centos|fedora(?:_fedora)?|almalinux|rocky|ol|vg\d?|vg_?root|system|lvm|main)"
    r"(?:[-/](?:ubuntu(?:--|-)lv|root|swap(?:_1)?|home|var|data|tmp|boot|lv_?root|lv_?swap))?"
    r"|cloudimg-rootfs|uefi|flatcar|coreos|nixos(?:_sd)?|writable|system-boot|rootfs|bootfs|usb|oem|usr-[ab]|arch_\d{6}"
    r"|[rbz](?:pool|root)|auto|bootfs|pve-\d{1,2}|default|(?:ROOT|BOOT|EFI-SYSTEM|ESP)|luks-[0-9a-f-]{36}|dmroot|live-(?:rw|base)",
    re.IGNORECASE,
)


def is_common_disk(name: str) -> bool:
    """Whether an installer gives this name to every host."""
    return _COMMON_DISK.fullmatch(name) is not None


# Parts of a path below somebody's home that are alike everywhere.
_COMMON_PART = re.compile(
    r"\.(?:bashrc|profile|config|cache|local|ssh|venv|env|conda|cargo|rustup|npm|docker|nv|triton|cmake|git|gitconfig)"
    r"|(?:venv|env|bin|sbin|lib(?:32|64)?|share|state|src|build|include|opt|tmp|logs?|etc|usr|var|dist|site-packages|dist-packages)"
    r"|(?:mini|ana|mamba|mini?forge)(?:conda|forge)?3?|envs|base|condabin|pipx|venvs|uv|tools|hub|huggingface|torch|transformers|vllm"
    r"|Downloads|Desktop|Documents|Templates|Videos|Music|Pictures|Public"
    r"|python(?:\d(?:\.\d{1,2})?)?|amdsmi|pynvml|hostdoctor|rocm(?:-[\d.]{1,9})?|cuda(?:-[\d.]{1,9})?|nccl|rccl"
    r"|boot|vmlinu[xz].{0,80}|initr(?:d|amfs).{0,80}|grub2?|@"
    r"|(?:dmesg|lspci|journal(?:ctl)?|kern|syslog|messages|nvidia-smi|nvidia-bug-report|rocm-?smi|rocminfo|amd-smi|cmdline|uname"
    r"|rocm-bandwidth-test|rbt|TransferBench|transferbench|nvbandwidth|p2pBandwidthLatencyTest|nccl|rccl|topo|grub|report|capture)"
    r"(?:[-_](?:q|x|L|t|a|v{1,3}|xxx{1,2}|nn|vvnn|topo|m|k|b|before|after|all|\d)){0,4}"
    r"(?:\.(?:txt|log|out|xml|json|gz|xz|cfg|tar|tgz|zst)){0,2}"
)


def is_common_part(name: str) -> bool:
    """Whether a part of a path is alike in everybody's home."""
    return _COMMON_PART.fullmatch(name) is not None


# UUIDs that name a kind of thing, not one of them: EFI variables' vendors, partition types, ACPI's _OSC.
PUBLIC_UUIDS = frozenset(
    (
        "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",  # systemd, the Boot Loader Interface
        "8be4df61-93ca-11d2-aa0d-00e098032b8c",  # UEFI, global variables
        "d719b2cb-3d3a-4596-a3bc-dad00e67656f",  # UEFI, image security
        "605dab50-e046-4300-abb6-3dd810dd8b23",  # shim
        "77fa9abd-0359-4d32-bd60-28f4e78f784b",  # Microsoft
        "c12a7328-f81f-11d2-ba4b-00a0c93ec93b",  # EFI system partition
        "0fc63daf-8483-4772-8e79-3d69d8477de4",  # Linux file system
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",  # Linux root, x86-64
        "bc13c2ff-59e6-4262-a352-b275fd6f7172",  # Linux extended boot
        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f",  # Linux swap
        "e6d6d379-f507-44c2-a23c-238f2a3df928",  # Linux LVM
        "21686148-6449-6e6f-744e-656564454649",  # BIOS boot
        "33db4d5b-1ff7-401c-9657-7441c03dd766",  # ACPI, _OSC of a PCI host bridge
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    )
)
