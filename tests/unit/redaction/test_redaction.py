"""What is private does not leave; what is not stays as it is."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.redaction import Redactor

UUID = "7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4"

# What each tool prints, and what of it is private.
PRINTED = {
    "command line": (
        f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.8.0-52-generic root=UUID={UUID} ro quiet iommu=pt "
        "rd.luks.uuid=luks-0d0ee5a1-63a1-4b7e-a8f1-2f3c4d5e6f70 rd.luks.name=7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4=vaultdisk "
        "cryptdevice=UUID=1f2e3d4c-5b6a-4798-8a9b-acbdcedf0011:cellar:allow-discards rd.iscsi.password=Zw9xPq77 "
        "ip=10.20.30.40::10.20.30.1:255.255.255.0:quark17:eno1:none systemd.machine_id=0123fedc4567ba980123fedc4567ba98 "
        "resume=/dev/quarkvg/swaplv crashkernel=512M",
        [UUID, "0d0ee5a1", "1f2e3d4c", "vaultdisk", "cellar", "Zw9xPq77", "10.20.30", "quark17", "0123fedc", "quarkvg"],
    ),
    "zfs": ("root=ZFS=rpool/ROOT/ubuntu_k3x9ab boot=zfs\nlinux /BOOT/ubuntu_k3x9ab@/vmlinuz", ["k3x9ab"]),
    "dmesg": (
        "[    0.000000] Linux version 6.12.1 (miriam@quark17) (gcc (GCC) 14.2.1) #1 SMP\n"
        "[    2.1] e1000e 0000:00:1f.6 eth0: (PCI Express:2.5GT/s:Width x1) d8:5e:d3:0a:1b:2c\n"
        "[    3.1] usb 1-2: SerialNumber: 4C530001230415\n"
        "[    3.2] NVRM: GPU at PCI:0000:43:00: GPU-4c1f9e27-d0b3-7a58-e6f4-1b92c87d350a\n"
        "[    3.2] NVRM: GPU Board Serial Number: 1563421099887\n"
        "[    4.1] IPv6: ADDRCONF(NETDEV_CHANGE): enxd85ed30a1b2c: link becomes ready\n"
        "[    5.1] nfs: server 203.0.114.77 not responding, still trying\n",
        ["miriam", "quark17", "d8:5e:d3", "4C530001230415", "4c1f9e27", "1563421099887", "d85ed30a1b2c", "203.0.114.77"],
    ),
    "journal": (
        "Mar 03 18:22:40 quark17 kernel: amdgpu 0000:43:00.0: amdgpu: reset\n"
        "Mar 03 18:22:41 quark17 sshd[812]: Accepted publickey for miriam from 10.20.30.99 port 50022 ssh2: "
        "ED25519 SHA256:pZfV1cq9mJq3rW7yT2nB8xKd4sLw6eRg5hUa0oIiQvM\n"
        "Mar 03 18:22:42 quark17 sudo[813]:   miriam : TTY=pts/0 ; PWD=/home/miriam/orchid ; USER=root ; COMMAND=dmesg\n"
        "-- Boot 5f0e1d2c3b4a59687766554433221100 --\n"
        "2025-03-03T18:22:43+01:00 quark17.lab.example.com systemd[1]: Hostname set to <quark17>.\n",
        ["quark17", "lab.example", "miriam", "10.20.30.99", "pZfV1cq9", "orchid", "5f0e1d2c"],
    ),
    "lspci": (
        "43:00.0 Ethernet controller: Intel Corporation I210 (rev 03)\n"
        "\tCapabilities: [140 v1] Device Serial Number b4-2e-99-ff-ff-a1-b2-c3\n"
        "\tCapabilities: [e0] Vital Product Data\n\t\t\t[SN] Serial number: MT2210X09876\n",
        ["b4-2e-99", "MT2210X09876"],
    ),
    "nvidia-smi -q": (
        "    Serial Number                         : 1563421099887\n"
        "    GPU UUID                              : GPU-4c1f9e27-d0b3-7a58-e6f4-1b92c87d350a\n"
        "    Board Part Number                     : 900-5G190-2500-000\n"
        "        Chassis Serial Number             : CHS00812X\n",
        ["1563421099887", "4c1f9e27", "900-5G190-2500-000", "CHS00812X"],
    ),
    "nvidia-smi -q -x": (
        "<serial>1563421099887</serial><uuid>GPU-4c1f9e27-d0b3-7a58-e6f4-1b92c87d350a</uuid>"
        "<board_part_number>900-5G190-2500-000</board_part_number>",
        ["1563421099887", "4c1f9e27", "900-5G190-2500-000"],
    ),
    "nvidia-smi -L": ("GPU 0: NVIDIA H100 (UUID: GPU-4c1f9e27-d0b3-7a58-e6f4-1b92c87d350a)", ["4c1f9e27"]),
    "rocm-smi": (
        "GPU[0]\t\t: Unique ID: 0x9e7769b10f4205b4\nGPU[0]\t\t: Serial Number: PCB0917A22\n",
        ["9e7769b10f4205b4", "PCB0917A22"],
    ),
    "rocm-smi --json": (
        json.dumps({"card0": {"Unique ID": "0x9e7769b10f4205b4", "Serial Number": "692224001199"}}),
        ["9e7769b1", "692224001199"],
    ),
    "amd-smi": (
        "    ASIC:\n        ASIC_SERIAL: 0x9E7769B10F4205B4\n    BOARD:\n        PRODUCT_SERIAL: 692224001199\n"
        "    UUID: 73ff73a1-0000-1000-809e-7769b10f4205\n",
        ["9E7769B1", "692224001199", "73ff73a1"],
    ),
    "kfd": ("simd_count 144\nunique_id 11418888888888888884\nhive_id 4440123\n", ["11418888", "4440123"]),
    "dmidecode": (
        "\tManufacturer: Supermicro\n\tSerial Number: S5X0123987\n\tUUID: 7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4\n"
        "\tAsset Tag: INV-00771\n",
        ["S5X0123987", "7c1b2e58", "INV-00771"],
    ),
    "grub.cfg": (
        'set superusers="miriam"\npassword_pbkdf2 miriam grub.pbkdf2.sha512.10000.ABCDEF0123456789ABCDEF.0123456789\n'
        f"search --no-floppy --fs-uuid --set=root {UUID}\nsearch --no-floppy --fs-uuid --set=root 7C41-E0A9\n",
        ["miriam", "ABCDEF0123456789", UUID, "7C41-E0A9"],
    ),
    "fstab": (
        f"UUID={UUID} / ext4 defaults 0 1\nUUID=7C41-E0A9 /boot/efi vfat umask=0077 0 1\nLABEL=orchidstore /srv ext4\n"
        "/dev/mapper/quark17--vg-swap none swap\nfiler9.lab.example.com:/orchid /mnt/o nfs defaults\n"
        "PARTUUID=9f3a77c1-02 /x ext4\n",
        [UUID, "7C41-E0A9", "orchidstore", "quark17", "filer9", "lab.example", "9f3a77c1"],
    ),
    "nccl": (
        "quark17:4411:4502 [0] NCCL INFO Bootstrap : Using eno1:10.20.30.40<0>\n"
        "[1,3]<stdout>:quark18:4411:4502 [0] NCCL INFO NET/Socket : Using [0]eno1:fd00:12:34::9<0>\n",
        ["quark17", "quark18", "10.20.30.40", "fd00:12"],
    ),
    "hwloc": (
        '<info name="DMIProductSerial" value="S5X0123987"/><info name="HostName" value="quark17"/>'
        '<info name="Address" value="d8:5e:d3:0a:1b:2c"/><info name="NodeGUID" value="506b:4b03:00ab:cdef"/>',
        ["S5X0123987", "quark17", "d8:5e:d3", "506b:4b03"],
    ),
    "uname": ("Linux quark17 6.8.0-52-generic #53-Ubuntu SMP PREEMPT_DYNAMIC x86_64 GNU/Linux", ["quark17"]),
    "sysctl": ("kernel.hostname = quark17\n", ["quark17"]),
    "prompt": ("miriam@quark17:~/orchid$ lspci -vvv\n[root@quark17 ~]# dmesg\n", ["miriam", "quark17", "orchid"]),
    "id": ("uid=1000(miriam) gid=1000(miriam) groups=1000(miriam),44(video),109(render)", ["miriam"]),
    "groups": ("miriam : miriam adm video render", ["miriam"]),
    "ls": ("crw-rw----+ 1 miriam render 226, 128 Mar  3 18:22 /dev/dri/renderD128", ["miriam"]),
    "getfacl": ("# file: dev/kfd\n# owner: miriam\nuser:miriam:rw-\n", ["miriam"]),
    "passwd": ("miriam:x:1000:1000:Miriam Oakley,,,:/home/miriam:/bin/bash", ["miriam", "Oakley"]),
    "paths": (
        'File "/home/miriam/orchid/train.py" in /root/orchid/x, "/home/miriam/Big Orchid/a b.py" and C:\\Users\\miriam\\x',
        ["miriam", "rchid", "train.py", "a b.py"],
    ),
    "environment": (
        "HF_TOKEN=hf_QwErTyUiOpAsDfGhJkLzXc\nWANDB_API_KEY=0a1b2c3d4e5f60718293a4b5c6d7e8f901234567\n"
        "vllm serve --api-key qwerty-orchid --hf-token abcdefgh12 https://miriam:hunter2x@quark17.lab.example.com/v1\n"
        "Authorization: Bearer AbCdEf0123456789xyz\n",
        ["QwErTy", "0a1b2c3d", "qwerty-orchid", "abcdefgh12", "hunter2x", "AbCdEf0123"],
    ),
    "key": (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\nQyNTUxOQAAACB\n"
        "-----END OPENSSH PRIVATE KEY-----\n"
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9fK3xQeRtYuIoPaSdFgHjKlZxCvBnM0123456789ab miriam@quark17\n",
        ["b3BlbnNz", "QyNTUx", "AAAAC3Nz", "miriam", "quark17"],
    ),
    "mail": ("please write to miriam.oakley@orchid-labs.com", ["miriam", "orchid"]),
    "disks": (
        "/dev/disk/by-id/nvme-Samsung_SSD_980_PRO_1TB_S5GXNX0T123456 nqn.2014.08.org.nvmexpress:144d144dS5GXNX0T123456 "
        "/dev/disk/by-id/wwn-0x5002538e40b8c123",
        ["S5GXNX0T123456", "5002538e40b8c123"],
    ),
}  # fmt: skip

# One line each, so that nothing else in the text tells what its private part is: the line, and that part.
LINES = (
    ("systemd-networkd[800]: wlp3s0: Connected WiFi access point: Orchid5G (a4:2b:b0:11:22:33)", "Orchid5G"),
    ("wlan0: Trying to associate with SSID 'Orchid 5G'", "Orchid"),
    ("device (wlp4s0): Activation: (wifi) connection 'Orchid' has security", "Orchid"),
    ("_HOSTNAME=quark17", "quark17"),
    ('{"_HOSTNAME":"quark17","MESSAGE":"x"}', "quark17"),
    ('{"MESSAGE":"\\tSerial Number: S5X0123987\\n\\tAsset Tag: INV-00771\\n"}', "INV-00771"),
    ('{"MESSAGE":"say \\"USER=miriam\\" again"}', "miriam"),
    ("SLURM_JOB_USER=miriam", "miriam"),
    ("SLURMD_NODENAME=orchid01", "orchid01"),
    ("MY_POD_NAME=orchid-train-7d9", "orchid-train"),
    ('I0303 18:22:40 kubelet.go:99] "Starting" node="orchidnode3"', "orchidnode3"),
    ("#  Rank  0 Group  0 Pid   4411 on    quark17 device  0 [0000:43:00] NVIDIA H100", "quark17"),
    ("[quark17:04411] mca_base_component_repository_open: unable to open", "quark17"),
    ("127.0.1.1\tquark17.lab.example.com quark17", "quark17"),
    ("search lab.orchid.example", "orchid"),
    ("quark17 login: ", "quark17"),
    ("Loaded X.509 cert 'quark17 Secure Boot Module Signature key: 61482aa2830d'", "quark17"),
    ("ds=nocloud;h=quark17;i=iid-3", "quark17"),
    ("ARRAY /dev/md0 metadata=1.2 name=quark17:0 UUID=7c1b2e58:93ad4f06:8e215d90:c3ab17f4", "quark17"),
    ("rd.md.uuid=7c1b2e58:93ad4f06:8e215d90:c3ab17f4", "93ad4f06"),
    ("\tnode_desc: quark17 HCA-1", "quark17"),
    ("ip=[fd00:12:34::9]::[fd00:12:34::1]:64:quark18:eno1:none", "quark18"),
    ("ifname=eno1:d8:5e:d3:0a:1b:2c", "d8:5e"),
    ("root=/dev/nfs nfsroot=filer9.lab:/srv/x,vers=3", "filer9"),
    ("root=nfs4:filer9:/srv/x", "filer9"),
    ("filer9:/o on /mnt type nfs4 (rw)", "filer9"),
    ("//filer9/o on /mnt type cifs (rw)", "filer9"),
    ("rd.iscsi.username=miriam", "miriam"),
    ('audit: type=1100 acct="miriam" exe="/usr/sbin/sshd"', "miriam"),
    ("Connection closed by authenticating user miriam 10.2.3.4 port 22 [preauth]", "miriam"),
    ("miriam     4411  99.0  1.2 123456 7890 ?  Sl 18:22 0:01 python", "miriam"),
    ("|    0   N/A  N/A   4411   C   ...miriam/orchid/bin/python   512MiB |", "orchid"),
    ("Signed-off-by: Miriam Oakley <miriam@orchid.dev>", "Oakley"),
    ("input: Miriam's AirPods (AVRCP) as /devices/virtual/input/input30", "Miriam"),
    ("\\\\wsl$\\Ubuntu\\home\\miriam\\x", "miriam"),
    ("Starting home-miriam.mount", "miriam"),
    ("luks.name=7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4=cellar", "cellar"),
    ("Finished systemd-cryptsetup@cellar.service", "cellar"),
    ("Starting Cryptography Setup for cellar...", "cellar"),
    ("Found device dev-mapper-cellar.device", "cellar"),
    ("dev-disk-by\\x2duuid-7c1b2e58\\x2d93ad\\x2d4f06\\x2d8e21\\x2d5d90c3ab17f4.device", "7c1b2e58"),
    ("dev-disk-by\\x2dlabel-orchidstore.device", "orchidstore"),
    ("BTRFS: device label orchidfs devid 1 transid 99 /dev/nvme0n1p2", "orchidfs"),
    ("orchidpool/data /data zfs defaults 0 0", "orchidpool"),
    ("root=zfs:orchidpool/x", "orchidpool"),
    ("kubepods-pod7c1b2e58_93ad_4f06_8e21_5d90c3ab17f4.slice", "7c1b2e58"),
    ("docker-" + "3f4a1b2c9d8e7f6a" * 4 + ".scope", "3f4a1b2c9d8e"),
    ("    GPU PDI                                : 0x9e7769b10f4205b5", "9e7769b1"),
    ("<gpu_pdi>0x9e7769b10f4205b5</gpu_pdi>", "9e7769b1"),
    (" Product Asset Tag     : ORCHIDTAG", "ORCHIDTAG"),
    ("  iSerial                 3 0123456789ABCDEF77", "0123456789ABCDEF77"),
    ("LU WWN Device Id: 5 002538 e40b8c123", "e40b8c123"),
    ("flash GUID: 0781-5571-0000-123456789012", "123456789012"),
    ("sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIJ9fK3xQ", "AAAAGnN"),
    ("MD5:16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48", "16:27:ac"),
    ("MYSQL_PWD=orchidpw", "orchidpw"),
    ("<6>1 2025-03-03T18:22:40Z quark17 kernel - - - x", "quark17"),
    ("quark17:4411 [0] NCCL INFO Channel 00", "quark17"),
    ("torchrun --master_addr quark17 --master_port 29500", "quark17"),
    ("mpirun -H quark17:8,quark18:8 ./all_reduce_perf", "quark18"),
    ("$ hostname\nquark17", "quark17"),
    ("$ whoami\nmiriam", "miriam"),
    ("┌──(miriam㉿quark17)-[~]", "miriam"),
    ("scp x miriam@10.1.2.3:/x", "miriam"),
    ("uid=1000(ORCHID\\miriam) gid=1000", "miriam"),
    ("wandb: Currently logged in as: miriam (x)", "miriam"),
    ("/media/miriam/USB-7/x", "miriam"),
    ("usb 1-2: Product: Miriam's iPhone", "Miriam"),
    ("NVRM: GPU 0000:43:00.0 serial 1563421099887", "1563421099887"),
    ("mce: [Hardware Error]: PROCESSOR 2:a20f10 PPIN 2b0a1c3d4e5f6071", "2b0a1c3d"),
    ("mpt3sas_cm0: sas_address(0x5002538e40b8c123)", "5002538e"),
    ("base lid 0x1 GUID 0x506b4b0300abcdef", "506b4b03"),
    ("ID_SERIAL_SHORT=S5GXNX0T123456", "S5GXNX0T"),
    ("E: ID_FS_LABEL=orchidfs", "orchidfs"),
    ("E: ID_FS_UUID=7C41-E0A9", "7C41-E0A9"),
    ('PARTLABEL="orchid part"', "part\""),
    ("curl -u miriam:sekritpw9 https://x", "sekritpw9"),
    ("docker login -u m -p sekritpw9", "sekritpw9"),
    ("redis://:sekritpw9@10.0.0.1:6379", "sekritpw9"),
    ("inst.rootpw=sekritpw9", "sekritpw9"),
    ("Cookie: session=abcqwe123456789", "abcqwe123"),
    ("https://x.blob.core.windows.net/a?sv=2020&sig=abcqweABC%2B123", "abcqweABC"),
    ("dckr_pat_abcdefghij0123456789", "abcdefghij"),
    ("dapi0123456789abcdef0123456789abcdef", "dapi0123"),
)  # fmt: skip

# What a finding needs, and what merely looks private.
STAYS = (
    "0000:43:00.0", "00000000:43:00.0", "10000:e1:00.0", "PCI:0000:43:00", "[0000:40-ff]-+-03.1", "1002:73a1",
    "pci 0000:43:00.0:", "[mem 0x38000000000-0x387ffffffff 64bit pref]", "BAR 0: assigned", "5.15.0.91", "12.4.0.0",
    "driver 10.2.0.1", "570.86.10", "Driver Version: 570.133.20", "linux-image-5.15.0.91-generic", "6.8.0-52-generic",
    "94.02.71.40.12", "020.001.000.038", "nvcr.io/nvidia/cuda:12.4.0.0", "Linux version 5.15.167.4-microsoft-standard-WSL2",
    "CPU @ 2.90GHz", "ff,ffffffff,00000000", "0-15,32-47",
    "iommu=pt amd_iommu=on pci=realloc,hpmemsize=1G pcie_acs_override=downstream", "crashkernel=512M-:192M",
    "console=ttyS0,115200n8", "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.8.0",
    "Serial: 8250/16550 driver, 32 ports, IRQ sharing enabled", "Serial Attached SCSI controller: Broadcom / LSI",
    "SMBus: Serial bus controller", "Serial Number : N/A", "GPU-0", "GPU[0]", "2025-03-03T18:22:40.123456+01:00 pci",
    "2025-03-03 18:22:40", "[Mon Mar  3 18:22:40 2025]", "18:22:40", "127.0.0.1", "::1", "255.255.255.0", "0.0.0.0",
    "std::vector<int>", "ncclResult_t foo::bar", "hive_id 0", "unique_id 0", "root=ZFS=rpool/ROOT/pve-1",
    "/dev/mapper/pve-root", "/dev/mapper/ubuntu--vg-ubuntu--lv", "/dev/mapper/control", "LABEL=cloudimg-rootfs",
    "/dev/nvme0n1p2", "/sys/bus/pci/devices/0000:43:00.0/current_link_width", "/dev/disk/by-path/pci-0000:01:00.0-nvme-1",
    "getty@tty1.service", "user@1000.service", "pcie@1000110000", "1920x1080@60Hz", "(root cause)", "/root",
    "uid=0(root) gid=0(root) groups=0(root)", "(buildd@lcy02-amd64-046)", "crw-rw---- 1 root render 226, 128",
    "max_link_width", "LnkSta: Speed 8GT/s, Width x8", "16384MiB", "Image Version : G001.0000.03.03",
    "LoaderEntrySelected-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", "dm-devel@lists.linux.dev", "kernel key: 61ae38f665",
    "0x4100", "keymap=us", "Unique", "token", "password:", "num_tokens=2048", "fe:", "aa:bb",
    "usb usb1: SerialNumber: 10000:e1:00.0", "Asset Tag: No Asset Tag", "Board Asset Tag: Not Specified", "root=zfs:AUTO",
    "PPS API ver. 1 - Copyright 2005-2007 Rodolfo Giometti <giometti@linux.it>", "chacha20-poly1305@openssh.com",
    "ssid 1043 889d", "ssid=0x1043", "[10de:2684] device", "CONFIG_MODULE_SIG_KEY=y", "connection 'Wired connection 1'",
    "nvcr.io/nvidia/pytorch@sha256:" + "3f4a1b2c9d8e7f6a" * 4, "Searching... ok/done",
    "docker run -u 1000:1000 x", "serial 8250", "Serial ATA", "cookie: 0x4f", "lspci -H 1 -s 43:00.0",
    "vllm serve --host 0.0.0.0",
    "$ hostname\nlocalhost", "# whoami\nroot", "[ 3.1] usb 1-2: Product: Card Reader", "GUID Partition Table",
)  # fmt: skip


def all_of(printed):
    return printed.values()


@pytest.mark.parametrize("what", PRINTED)
def test_no_secret_survives(what):
    printed, secrets = PRINTED[what]
    redacted = Redactor().text(printed)
    assert [secret for secret in secrets if secret.lower() in redacted.lower()] == []


@pytest.mark.parametrize("what", PRINTED)
def test_no_secret_survives_in_json(what):
    printed, secrets = PRINTED[what]
    tree = {"evidence": [{"source": printed.split("\n", maxsplit=1)[0], "value": printed}], printed[:60]: 8}
    redacted = json.dumps(Redactor().value(tree))
    assert [secret for secret in secrets if secret.lower() in redacted.lower()] == []


@pytest.mark.parametrize(("line", "secret"), LINES)
def test_a_line_alone_tells_what_is_private_in_it(line, secret):
    redacted = Redactor().text(line)
    assert secret not in redacted
    assert Redactor().text(redacted) == redacted


def test_a_column_of_serial_numbers_goes_and_the_others_stay():
    redacted = Redactor().text("index, name, serial\n0, NVIDIA H100, 1563421\n1, NVIDIA H100, [N/A]\n\nseries, 1563, 4\n")
    assert redacted == ("index, name, serial\n0, NVIDIA H100, redacted-serial-1\n1, NVIDIA H100, [N/A]\n\nseries, 1563, 4\n")


def test_a_sentence_with_commas_is_no_table():
    text = "the serial number, the name\nAER: 12 corrected, 3 others\n"
    assert Redactor().text(text) == text


def test_json_stays_json_where_its_strings_have_lines_of_their_own():
    before = {"MESSAGE": 'a "b"\n\tSerial Number: S5X0123987\n', "n": 7, "path": "C:\\x"}
    after = json.loads(Redactor().text(json.dumps(before)))
    assert after == {**before, "MESSAGE": 'a "b"\n\tSerial Number: redacted-serial-1\n'}


@pytest.mark.parametrize("what", PRINTED)
def test_redacting_again_changes_nothing(what):
    redactor = Redactor()
    redacted = redactor.text(PRINTED[what][0])
    assert Redactor().text(redacted) == redacted
    assert redactor.text(redacted) == redacted


@pytest.mark.parametrize("text", STAYS)
def test_what_is_no_secret_stays(text):
    assert Redactor().text(text) == text
    assert Redactor().text(f"x {text} y\n{text}\n") == f"x {text} y\n{text}\n"


def test_a_secret_has_one_placeholder_in_all_that_belongs_to_one_output():
    redactor = Redactor()
    first = redactor.text(f"root=UUID={UUID}", "cmdline")
    second = redactor.value({"value": f"UUID={UUID.upper()} / ext4"}, "etc/fstab")
    assert first == "root=UUID=00000000-0000-4000-8000-000000000001"
    assert second == {"value": "UUID=00000000-0000-4000-8000-000000000001 / ext4"}
    assert redactor.text("UUID=00ff2e58-93ad-4f06-8e21-5d90c3ab17f4").endswith("-000000000002")
    row = redactor.replaced[0]
    assert (row.kind, row.secret, row.count, row.sources) == ("uuid", UUID, 2, ("cmdline", "etc/fstab"))


def test_amds_ways_to_write_one_number_have_one_placeholder():
    redacted = Redactor().text(
        "Unique ID: 0x9e7769b10f4205b4\nDevice: 1,  Radeon,  GPU-9e7769b10f4205b4,  43:0.0\n9E7769B10F4205B4\n"
    )
    assert redacted == "Unique ID: 0x0000000000000001\nDevice: 1,  Radeon,  GPU-0000000000000001,  43:0.0\n0000000000000001\n"


def test_placeholders_that_stand_there_already_are_not_given_to_another():
    redacted = Redactor().text(f"A=00000000-0000-4000-8000-000000000001 B={UUID}")
    assert redacted == "A=00000000-0000-4000-8000-000000000001 B=00000000-0000-4000-8000-000000000002"


def test_a_name_that_is_learnt_goes_everywhere_with_its_domain():
    redactor = Redactor()
    redactor.learn("host", "quark17.lab.example.com")
    redactor.learn("user", "miriam")
    redacted = redactor.text(
        "ping QUARK17, quark17.lab.example.com, quark17_pool, /data/miriam/x, quark17.log, miriam-test, quark170"
    )
    assert redacted == (
        "ping redacted-host-1, redacted-host-1, redacted-host-1_pool, /data/redacted-user-1/x, redacted-host-1.log, "
        "redacted-user-1-test, quark170"
    )


def test_a_name_that_is_a_word_goes_only_where_it_is_a_name():
    redactor = Redactor()
    redactor.learn("host", "node7")
    redactor.learn("user", "max")
    text = (
        "Mar  3 18:22:40 node7 kernel: max_link_width /sys/devices/system/node/node7 max locked memory /home/max/x node7:29500"
    )
    assert redactor.text(text) == (
        "Mar  3 18:22:40 redacted-host-1 kernel: max_link_width /sys/devices/system/node/node7 max locked memory "
        "/home/redacted-user-1/redacted-path-1 redacted-host-1:29500"
    )


@pytest.mark.parametrize("name", ["root", "localhost", "", " ", "redacted-host-1", "x"])
def test_what_is_no_name_is_not_learnt(name):
    redactor = Redactor()
    redactor.learn("host", name)
    redactor.learn("user", name)
    assert redactor.text("root on localhost: x redacted-host-1") == "root on localhost: x redacted-host-1"


def test_a_name_told_late_is_replaced_where_it_stood_before():
    text = "connecting to quark17\nLinux quark17 6.8.0-52-generic #53\n"
    assert "quark17" not in Redactor().text(text)
    redactor = Redactor()
    redactor.observe(text)
    assert redactor.text("quark17") == "redacted-host-1"


@pytest.mark.parametrize(
    ("source", "content", "redacted"),
    [
        ("sys/class/drm/card0/device/unique_id", "9e7769b10f4205b4\n", "0000000000000001\n"),
        ("sys/bus/pci/devices/0000:43:00.0/serial_number", "PCB0917A22\n", "redacted-serial-1\n"),
        ("sys/class/dmi/id/board_serial", "To be filled by O.E.M.\n", "To be filled by O.E.M.\n"),
        ("etc/machine-id", "0123fedc4567ba980123fedc4567ba98\n", "00000000000040008000000000000001\n"),
        ("etc/hostname", "node7\n", "redacted-host-1\n"),
        ("proc/sys/kernel/hostname", "(none)\n", "(none)\n"),
        ("sys/class/dmi/id/product_name", "PowerEdge R750\n", "PowerEdge R750\n"),
    ],
)
def test_files_that_hold_nothing_but_a_secret(source, content, redacted):
    assert Redactor().data(content.encode(), source) == redacted.encode()


def test_keys_of_json_tell_what_their_values_are():
    tree = {"serial": "1563421099887", "board": {"product_serial": "AB12"}, "hostname": "node7", "api_key": "q", "width": 8}
    redacted = Redactor().value(tree)
    assert redacted == {
        "serial": "redacted-serial-1",
        "board": {"product_serial": "redacted-serial-2"},
        "hostname": "redacted-host-1",
        "api_key": "redacted-token-1",
        "width": 8,
    }


def test_the_serial_number_in_config_space_goes_and_nothing_else():
    config = bytearray(range(256)) + bytes(256)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")  # AER, then the serial number
    config[0x140:0x144] = (0x0003 | 1 << 16).to_bytes(4, "little")
    config[0x144:0x14C] = bytes.fromhex("c3b2a1ffff992eb4")
    redacted = Redactor().data(bytes(config), "sys/devices/pci0000:40/0000:40:01.0/0000:43:00.0/config")
    assert redacted[0x144:0x14C] == bytes.fromhex("0200000000000001")[::-1]
    assert redacted[:0x144] == config[:0x144]
    assert redacted[0x14C:] == config[0x14C:]
    assert Redactor().data(redacted, "devices/0000:43:00.0/config") == redacted


def test_what_is_no_text_keeps_its_length_and_loses_what_was_learnt():
    redactor = Redactor()
    redactor.learn("host", "quark17")
    data = bytes(range(32)) * 8 + b" quark17 10.20.30.40" + bytes(range(32)) * 8
    redacted = redactor.data(data, "x.bin")
    assert len(redacted) == len(data)
    assert b"quark17" not in redacted
    assert redacted.replace(b"redacte", b"quark17") == data


def test_text_in_utf_16_and_in_no_encoding_loses_its_secrets():
    entry = "0123fedc4567ba980123fedc4567ba98-6.8.0-52-generic.conf\0"
    variable = b"\x06\0\0\0" + entry.encode("utf-16-le")
    redacted = Redactor().data(variable, "sys/firmware/efi/efivars/LoaderEntrySelected-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
    assert redacted == b"\x06\0\0\0" + entry.replace(
        "0123fedc4567ba980123fedc4567ba98", "00000000000040008000000000000001"
    ).encode("utf-16-le")
    assert (
        Redactor().data(b"root=UUID=%b m\xfcller" % UUID.encode())
        == b"root=UUID=00000000-0000-4000-8000-000000000001 m\xfcller"
    )


def test_a_redacted_command_line_has_the_same_parameters():
    line = PRINTED["command line"][0]
    before, after = (parse_command_line(each)[0] for each in (line, Redactor().text(line)))
    assert [each.name for each in after] == [each.name for each in before]
    kept = ("iommu", "quiet", "ro", "crashkernel", "BOOT_IMAGE")
    assert [each for each in after if each.name in kept] == [each for each in before if each.name in kept]


def test_placeholders_do_not_break_xml_or_a_shell():
    for printed, _ in PRINTED.values():
        replaced = Redactor()
        replaced.text(printed)
        assert not any(set(row.placeholder) & set("<>&'\"$`\\ ;|()") for row in replaced.replaced)


# --- whatever comes -------------------------------------------------------------------------------------------------------

PIECES = st.one_of(
    st.sampled_from([text for text, _ in all_of(PRINTED)]).flatmap(
        lambda text: st.integers(0, len(text)).map(lambda n: text[n : n + 60])
    ),
    st.sampled_from(STAYS),
    st.sampled_from(
        ["redacted-host-1", "redacted-user-2:", "192.0.2.7", "02:00:00:00:00:03", "GPU-0000000000000004", "/home/", "@", ": "]
    ),
    st.text(alphabet=string.printable, max_size=12),
    st.text(max_size=6),
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", "\n", ", ", "\t"])).map("".join), max_size=8).map("".join)


@given(TEXTS)
def test_any_text_is_redacted_once_and_for_all(text):
    redactor = Redactor()
    redacted = redactor.text(text)
    assert redactor.text(redacted) == redacted


@given(TEXTS)
def test_another_redactor_finds_nothing_left(text):
    redacted = Redactor().text(text)
    assert Redactor().text(redacted) == redacted


@given(st.binary(max_size=300))
def test_any_bytes_pass(data):
    assert isinstance(Redactor().data(data, "x"), bytes)


WORDS = st.text(alphabet=string.ascii_lowercase, min_size=5, max_size=10)


@given(WORDS, WORDS, st.uuids(version=4), st.integers(1, 254))
def test_planted_secrets_are_gone(user, host, uuid, octet):
    user, host = f"{user}7q", f"{host}8q"
    redactor = Redactor()
    redactor.learn("user", user)
    redactor.learn("host", host)
    text = f"{user}@{host}: root=UUID={uuid} 10.{octet}.77.8 /srv/{user}/{host} {str(uuid).upper()}"
    redacted = redactor.text(text).lower()
    assert not any(secret in redacted for secret in (user, host, str(uuid), f"10.{octet}.77.8"))


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_addresses_of_functions_always_stay(domain, bus, device, function):
    address = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    text = f"{address} x {address}: [{address}] {address[:-2]} PCI:{address} /devices/{address}/config {domain:04x}:{bus:02x}"
    assert Redactor().text(text) == text
