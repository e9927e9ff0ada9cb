"""How private things look, and where they stand, in what tools and the kernel print.

Two kinds of patterns: shapes, which prove themselves wherever they stand (a UUID, a MAC), and places, where a name or a
number is private because of what is around it (the host's column of a journal, the value of "Serial Number"). In a place
the named groups say what is private: `host`, `user`, `serial`, `disk`, `token`; a group may have a number at its end.
Every quantity is bounded, so that no text takes more than linear time.
Sources: RFC 3164, RFC 5424 and systemd src/shared/logs-show.c for logs; NCCL src/debug.cc; dmidecode; lspci ls-vpd.c and
ls-ecaps.c; nvidia-smi -q; rocm_smi.py; hwloc attributes; kernel-parameters.rst; dracut.cmdline(7); RFC 5737 and RFC 3849
for addresses that documents may use.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hostdoctor.redaction import words


class Place(NamedTuple):
    """A pattern with private groups.

    Attributes:
        needs: a text without any of these words (in lower case) has no match, which is quick to see.
        pattern: its groups are named by their kind.
    """

    needs: tuple[str, ...]
    pattern: re.Pattern[str]


_HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,252})"
_GROUP = "users|sudo|wheel|adm|video|render|docker|kvm"
_USER = r"(?P<user>[A-Za-z_][\w.-]{0,63})"
_MONTH = r"(?:[^\W\d]{2,6}\.?|\d{1,2}[^\W\d]),? {1,2}\d{1,2},? "
_ZONE = r"(?:Z|[+-][\d:]{2,6}| [A-Z]{3,5})?"
_CLOCK = r"\d\d:\d\d:\d\d"
_DATED = (
    rf"(?:{_MONTH}(?:\d{{4}} )?{_CLOCK}(?:[.,]\d{{1,9}})?(?: \d{{4}})?"
    rf"|\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:\.\d{{1,9}})?{_ZONE})"
)
_BEFORE = r"[ \t>|`]{0,8}(?:[\w./+-]{1,120}:)?(?:<\d{1,3}>(?:1 )?)?(?:[^\W\d]{1,6}\.? )?"
_PROGRAM = r"(?:kernel|[\w.@/()-]{1,64}\[\d{1,9}\]|systemd|sudo|CRON|rsyslogd|dbus-daemon|su|sshd)(?:\[n/a\])?:"
_HOST_FIELD = r"(?:(?<![a-z0-9])(?:host|node|pod|computer)[ _]?name|kernel\.hostname|\bnode[ _]desc|\bbuild host)"
_IS = r"(?:=|\" ?: ?)[\"']?"
_CAPITAL = r"[^\W\d_a-z][\w.'\u2019-]{0,30}"
_PUBLIC = "|".join(map(re.escape, sorted(words.PUBLIC_EMAILS)))
_SHARE = r":?/\S{0,200}[ \t]{1,40}/\S{0,200}[ \t]{1,40}"
_END = r"(?=[\"',;>\])}]|[ \t\r]*$)"


def _place(needs: str, pattern: str, flags: int = 0) -> Place:
    return Place(tuple(needs.split("|")), re.compile(pattern, re.MULTILINE | flags))


HOSTS_AND_USERS = (
    # --- logs ---------------------------------------------------------------------------------------------------------
    _place(":", rf"^{_BEFORE}{_DATED} {_HOST} {_PROGRAM}"),
    _place("<", rf"^<\d{{1,3}}>1 {_DATED} {_HOST} "),
    _place("nccl", rf"(?<![\w.-]){_HOST}:\d{{1,10}}(?::\d{{1,10}})? \[\d{{1,4}}\] (?:\S{{1,80}} ){{0,2}}NCCL"),
    _place("hostname", rf"\b(?:[sS]et hostname to|[hH]ostname set to) <?{_HOST}"),
    _place("session", rf"\bsession (?:opened|closed) for user {_USER}"),
    _place("session", rf"\b[sS]ession \S{{1,16}} of [uU]ser {_USER}"),
    _place("by ", rf"\bby {_USER}\(uid="),
    _place("accepted|failed", rf"\b(?:Accepted|Failed) [\w/-]{{1,40}} for (?:invalid user )?{_USER} from"),
    _place("sudo", rf"\bsudo(?:\[\d{{1,9}}\])?: {{1,16}}{_USER} : "),
    _place("cron", rf"\bCRON\[\d{{1,9}}\]: \({_USER}\)"),
    # --- what names the host --------------------------------------------------------------------------------------------
    _place("linux ", rf"\bLinux {_HOST} \d{{1,3}}\.\d{{1,4}}\.\d{{1,5}}\S{{0,100}} #\d"),
    _place("host|node|pod|computer", rf"(?i){_HOST_FIELD}\"?[ \t]{{0,60}}[:=][ \t]{{0,20}}[\"']?{_HOST}(?:{_END}| HCA-\d)"),
    _place("--", rf"(?<!\S)--(?:master[_-]addr|rdzv[_-]endpoint|hosts?)[ =]{_HOST}"),
    _place(" -h ", rf" -H {_HOST}(?::\d{{1,5}},(?P<host2>[A-Za-z0-9][\w.-]{{0,252}}))?:\d{{1,5}}\b"),
    _place("hostname", rf"[$#] hostname(?: -\w)?[ \t\r]{{0,9}}\n{_HOST}[ \t\r]{{0,9}}$"),
    _place("\u327f", rf"\({_USER}\u327f{_HOST}\)"),
    _place("node=", r"\bnode=\"(?P<host>[A-Za-z][\w.-]{2,252})\""),
    _place("pid", rf"\bPid +\d{{1,10}} on +{_HOST} device +\d"),
    _place(":", r"^\[(?![0-9a-f]{4}:[0-9a-f]{4}\])(?P<host>[A-Za-z][\w.-]{1,252}):\d{4,10}\] "),
    _place("127.0.1.1", rf"^127\.0\.1\.1[ \t]{{1,40}}{_HOST}(?:[ \t]{{1,40}}(?P<host2>[\w.-]{{1,253}}))?"),
    _place("search|domain", r"^(?:search|domain)[ \t]{1,20}(?P<host>[\w-]{1,63}\.[\w.-]{1,253})[ \t\r]*$"),
    _place(" login:", rf"^{_HOST} login: {{0,4}}(?P<user>[a-z][\w.-]{{0,63}})?"),
    _place("secure boot", rf"'{_HOST} Secure Boot Module Signature key"),
    _place("ds=nocloud", rf"\bds=nocloud[^\s;]{{0,40}};(?:[^\s;]{{1,200}};){{0,9}}(?:h|local-hostname)={_HOST}"),
    _place("array", rf"^ARRAY \S{{1,80}} [^\n]{{0,200}}\bname={_HOST}:"),
    _place("master_addr", rf"\bMASTER_ADDR=[\"']?{_HOST}"),
    _place("host", rf"(?i)\bhostname=[\"']?{_HOST}"),
    _place("host|domain", rf'(?i)name="(?:host|domain)name" value="{_HOST}"'),
    _place("hostname>", rf"(?i)<hostname>{_HOST}<"),
    _place("domainname", rf"(?i)\bdomainname[ \t]{{0,9}}[=:][ \t]{{0,9}}{_HOST}"),
    _place("ip=", rf"\bip=(?:(?:\[[^\]\s]{{0,64}}\]|[^\s:\[]{{0,64}}):){{4}}{_HOST}:"),
    _place("nfs|ceph|glusterfs|lustre", rf"^{_HOST}{_SHARE}(?:nfs4?|ceph|glusterfs|lustre)\b"),
    _place("cifs|smb", rf"^//{_HOST}{_SHARE}(?:cifs|smb3?)\b"),
    _place(" type ", rf"^(?://{_HOST}/|(?P<host2>[A-Za-z0-9][\w.-]{{0,252}}):/)\S{{0,200}} on /\S{{0,200}} type "),
    _place("nfsroot=", rf"\bnfsroot={_HOST}:"),
    _place("root=", rf"\b(?:net)?root=(?:nfs4?|nbd|iscsi):@?{_HOST}:"),
    # --- what names users ------------------------------------------------------------------------------------------------
    _place("uid=", rf"\b(?:uid|euid|auid|loginuid)=\d{{1,10}}\((?:(?P<user2>\w{{1,64}})\\{{1,2}})?{_USER}\)"),
    _place("=", rf"(?<=[=,])[1-9]\d{{3,9}}\({_USER}\)"),
    _place("user|logname|acct", rf"(?i)(?<![a-z0-9])(?:user(?:_?name)?|logname|acct){_IS}{_USER}"),
    _place("sudo", rf"\bsudo (?:-[A-Z-]\w{{0,15}} ){{0,4}}(?:-u|--user)[ =]?{_USER}"),
    _place(" user ", rf"\b(?:authenticating|invalid|from) user {_USER} \S{{2,64}} port \d"),
    _place("registered owner", rf"\bRegistered Owner: {{1,30}}{_USER}"),
    _place("whoami", rf"[$#] whoami[ \t\r]{{0,9}}\n{_USER}[ \t\r]{{0,9}}$"),
    _place("@", rf"(?<![\w.@/+-]){_USER}@(?=(?:\d{{1,3}}\.){{3}}\d{{1,3}}\b)"),
    _place("logged in as", rf"\blogged in as:? {_USER}"),
    _place("wandb.ai/", rf"\bwandb\.ai/{_USER}/"),
    _place("keyring for", rf"\bkeyring for {_USER}"),
    _place("pts/|tty", rf"^{_USER} {{1,40}}(?:pts/\d|tty\d)"),
    _place(".", rf"^{_USER}\+? {{1,12}}\d{{1,7}} {{1,4}}\d{{1,3}}\.\d {{1,4}}\d{{1,3}}\.\d "),
    _place("input: |product: ", r"\b(?:input|Product): (?P<user>[^\n:'\u2019]{2,40})['\u2019]s\b"),
    _place("@", rf"(?<![^\W\d_])(?P<user>(?:{_CAPITAL} ){{1,3}}{_CAPITAL}) <(?!(?i:{_PUBLIC})>)[\w.+-]{{1,64}}@"),
    _place(":/", rf"^{_USER}:[^:\n]{{0,128}}:[1-9]\d{{3,9}}:\d{{1,10}}:(?P<user2>[^:,\n]{{1,100}})?[^:\n]{{0,200}}:/"),
    _place(" : ", rf"^{_USER} : (?:[a-z_][\w-]{{0,31}} ){{0,40}}?(?:(?P=user)|{_GROUP})(?=[ \r]|$)"),
    _place("rw", rf"^[bcdlps-][rwxsStT-]{{9}}[.+@]? {{1,8}}\d{{1,6}} {{1,8}}{_USER} {{1,8}}(?:(?P=user)(?= )|\S)"),
    _place("owner:", rf"^# owner: {_USER}"),
    _place("user:", rf"^(?:default:)?user:{_USER}:[rwx-]{{3}}"),
    _place("superusers", rf"\bsuperusers=[\"']?{_USER}"),
    _place("password", rf"\bpassword(?:_pbkdf2)? {_USER} "),
    _place("~", rf"(?<![\w/~])~{_USER}(?=/)"),
    _place("users\\|home\\", rf"(?:\b[A-Za-z]:\\{{1,2}}Users|\\home)\\{{1,2}}{_USER}"),
    _place("home-", r"\bhome-(?!redacted-)(?P<user>\w{1,64})(?=[-.](?:\S{0,200}\.)?(?:auto)?mount\b)"),
)  # fmt: skip

NETWORKS = (
    _place("ssid", r"(?i)\be?ssid[ :=]{1,3}(?P<quote>[\"'])(?P<network>[^\"'\n]{1,32})(?P=quote)"),
    _place("ssid", r"\bssid=(?P<network>[^\s\"',;]{1,32})"),
    _place("access point:", r"\b[aA]ccess point: (?P<network>[^\n]{1,64}?) \([0-9a-f:]{17}\)"),
    _place("wireless network", r"\bwireless network [\"'](?P<network>[^\"'\n]{1,64})"),
    _place("connection '", r"\bActivation: (?:\(wifi\) )?(?:starting )?connection '(?P<network>[^'\n]{1,64})"),
)  # fmt: skip

_SERIAL_NAME = (
    r"(?:serial(?:[ _-]?(?:short|numbers?|num|no|nr)\.?)?|unique[ _-]?id|(?:xgmi[ _])?hive[ _]?id|(?:asset|service)[ _-]?tag"
    r"|fru[ _]?id|pdi|(?:flash[ _])?guid"
    r"|board[ _-]part[ _-](?:number|no)|(?:node|port|sys(?:tem)?[ _]image|fabric|cluster)[ _]?(?:guid|uuid)|machine[ _-]?id"
    r"|boot[ _-]?id|wwn|wwid|nguid)"
)
_FUNCTION = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\."  # a USB controller's number is its address
_VALUE = r"[^\s\"'<>,;|:=\[\](){}]{4,128}"
_SERIAL = rf"(?!{_FUNCTION})(?P<serial>{_VALUE}(?-i: [A-Z0-9-]{{3,24}}){{0,3}}(?=[ \t\r]{{0,9}}$|[\"'<,;|])|{_VALUE})"
_SERIAL_OF = r"(?:board|chassis|product|asic|system|gpu|module)serial(?:number)?"
_SAYS = r"\"?[ \t]{0,60}[:=|][ \t]{0,60}[\"']?"
_IN_XML = r"\w{0,40}(?:serial|assettag|uuid|unique_?id|guid|gid\d|pdi|board_part_number)\w{0,40}"

SERIALS = (
    _place("serial|id|tag|number|guid|uuid|wwn|pdi", rf"(?i)(?<![a-z0-9]){_SERIAL_NAME}{_SAYS}{_SERIAL}"),
    _place("serial", rf"(?i){_SERIAL_OF}{_SAYS}{_SERIAL}"),
    _place("asset", rf"(?i)\basset[ _]?tag{_SAYS}(?P<tag>[^\s\"'<>,;|:=]{{3,64}})[ \t\r]{{0,9}}$"),
    _place("serial", r"\b[sS]erial [\"']?(?P<serial>(?=[A-Z]{0,40}\d)[A-Z0-9]{8,40})\b"),
    _place("ppin", r"\bPPIN:? (?:0x)?(?P<serial>[0-9a-f]{16})\b"),
    _place("sas", r"(?i)\bsas[_ ]address[ (:=]{1,3}(?P<serial>(?:0x)?[0-9a-f]{16})\b"),
    _place("guid", r"(?i)\bguid:? (?P<serial>(?:0x)?[0-9a-f]{16})\b"),
    _place("h-|s-|r-", r"(?<![\w-])[HSR]-(?P<serial>(?:0x)?[0-9a-f]{16})\b"),
    _place("iserial", rf"\biSerial {{1,30}}\d{{1,3}} (?!{_FUNCTION})(?P<serial>\S{{4,128}})"),
    _place(
        "wwn device id|eui-64", r"(?i)\b(?:WWN Device Id|EUI-64): {1,30}(?P<serial>(?:[0-9a-f] )?[0-9a-f]{6} [0-9a-f]{9,10})\b"
    ),
    _place("_id ", r"^(?:unique_id|hive_id) {1,4}(?P<number>\d{1,20})[ \r]{0,4}$"),
    _place(">", rf"(?i)<{_IN_XML}>(?:GPU-|MIG-)?(?P<serial>[^<>\n]{{4,128}})<"),
    _place('value="', rf'(?i)name="{_IN_XML}" value="(?:GPU-|MIG-)?(?P<serial>[^"\n]{{4,128}})"'),
)

_KEY_NAME = (
    r"(?:token|secret|passw(?:or)?d|passphrase|credentials?|api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|secret[_-]?key"
    r"|license[_-]?key|psk|rootpw)"
)
TOKENS = (
    _place(
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<token>(?:[A-Za-z0-9+/=\s:,]|-(?!-)){1,20000})",
    ),
    _place("bearer|basic", r"\b(?:[bB]earer|Basic) (?P<token>[\w.+/=~-]{16,4096})"),
    _place(
        "token|secret|pass|credential|key|psk|rootpw",
        rf"(?i){_KEY_NAME}\"?(?:[ \t]{{0,4}}[=:][ \t]{{0,4}}[\"']?)(?P<token>[^\s\"'<>,;&|]{{1,512}})",
    ),
    _place(
        "token|secret|pass|credential|key",
        rf"(?i)(?<!\S)--(?:[\w-]{{0,30}}-)?{_KEY_NAME}[ =][\"']?(?P<token>[^\s\"'<>,;&|-][^\s\"'<>,;&|]{{0,512}})",
    ),
    _place(
        "_key=|_pass=|_pwd=|_psk=|_pat=|_auth=",
        r"\b(?!CONFIG_)[A-Z][A-Z0-9_]{0,40}_(?:KEY|PASS|PWD|PSK|PAT|AUTH)=[\"']?(?P<token>[^\s\"'<>,;&|]{1,512})",
    ),
    _place("set_credential", r"\bsystemd\.set_credential(?:_binary)?=[^\s:]{1,80}:(?P<token>\S{1,512})"),
    _place("://", r"://(?P<token>[^\s/@:\"'<>]{0,128}:[^\s/@\"'<>]{1,256})@"),
    _place("curl", r"\bcurl\b[^\n]{0,300}? (?:-u|--user)[ =]?[\"']?(?P<token>[^\s:\"']{1,64}:[^\s\"']{1,128})"),
    _place("login", r"\blogin\b[^\n]{0,200}? -p[ =]?[\"']?(?P<token>[^\s\"'-][^\s\"']{1,128})"),
    _place("cookie:", r"(?i)\bcookie: (?P<token>[\w.-]{1,80}=[^\n\"']{1,4000})"),
    _place("sig", r"(?i)[?&](?:sig|(?:x-amz-)?signature)=(?P<token>[^\s&\"'<>]{4,1000})"),
    _place("iscsi:", r"\biscsi:(?P<token>[^\s/@:\"'<>]{1,128}:[^\s/@\"'<>]{1,256})@"),
    _place(
        "hf_|sk-|gh|glpat|xox|akia|aiza|nvapi|eyj|tskey|age-|npm_|pypi-|_live_|dckr_|dapi|r8_|sg.|ya29|gsk_",
        r"(?<![A-Za-z0-9])(?P<token>hf_[A-Za-z0-9]{16,200}|sk-[\w-]{20,200}|gh[pousr]_[A-Za-z0-9]{20,200}|github_pat_\w{20,200}"
        r"|glpat-[\w-]{16,200}|xox[abprs]-[\w-]{10,200}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,60}|nvapi-[\w-]{20,200}"
        r"|eyJ[\w-]{10,4000}\.[\w-]{10,8000}\.[\w-]{0,2000}|tskey-[\w-]{10,200}|AGE-SECRET-KEY-1[A-Z0-9]{40,80}"
        r"|npm_[A-Za-z0-9]{30,60}|pypi-Ag[\w-]{20,400}|[prs]k_live_[A-Za-z0-9]{16,200}|dckr_pat_[\w-]{16,80}|dapi[0-9a-f]{32}"
        r"|r8_[A-Za-z0-9]{30,60}|SG\.[\w-]{16,40}\.[\w-]{30,80}|ya29\.[\w-]{20,400}|gsk_[A-Za-z0-9]{20,80})",
    ),
    _place("ssh-", r"\b(?:sk-)?ssh-(?:rsa|ed25519|dss)(?:@openssh\.com)? (?P<token>[A-Za-z0-9+/]{32,2000}={0,2})"),
    _place("ecdsa|sha256:", r"\b(?:ecdsa-sha2-nistp\d{3}(?:@openssh\.com)? |SHA256:)(?P<token>[A-Za-z0-9+/]{32,2000}={0,2})"),
    _place("md5:", r"\bMD5:(?P<token>[0-9a-f]{2}(?::[0-9a-f]{2}){15})\b"),
    _place("pbkdf2.", r"\b(?P<token>grub\.pbkdf2\.sha\d{1,3}\.[\w.]{16,4096})"),
    _place("$", r"(?P<token>\$(?:[0-9]|[0-9a-z]{1,6})\$[\w./+=$,-]{20,512})"),
)  # fmt: skip

_SHORT_UUID = r"(?P<uuid>[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{2}|[0-9A-Fa-f]{16})(?![\w-])"
_NO_VOLUME = r"(?!disk/|mapper/|nfs\b|fuse\b)"
_VOLUME = rf"(?P<disk>{_NO_VOLUME}[A-Za-z][\w.+-]{{0,63}}/[\w.+:-]{{1,64}})"
DISKS = (
    _place("/dev/mapper/", r"/dev/mapper/(?P<disk>[\w.+-]{1,128})"),
    _place("/by-", r"/by-(?:id|label|partlabel)/(?P<disk>[^\s/\"',;:)]{1,128})"),
    _place("label=", r"\b(?:PART)?LABEL=\"(?P<disk>[^\"\n]{1,128})\""),
    _place("id_fs_label|dm_name|id_part", r"\b(?:ID_FS_LABEL(?:_ENC)?|DM_NAME|ID_PART_ENTRY_NAME)=(?P<disk>\S{1,128})"),
    _place("id_fs_uuid", rf"\bID_FS_UUID(?:_ENC)?={_SHORT_UUID}"),
    _place("label=", r"\b(?:PART)?LABEL=[\"']?(?P<disk>[^\s\"',;:)]{1,128})"),
    _place("uuid=", rf"\b(?:PART)?UUID=[\"']?{_SHORT_UUID}"),
    _place("uuid/", rf"/by-(?:part)?uuid/{_SHORT_UUID}"),
    _place("fs-uuid", r"--fs-uuid\b[^\n]{0,300} (?P<uuid>[0-9A-F]{4}-[0-9A-F]{4})(?![\w-])"),
    _place("cryptdevice=", r"\bcryptdevice=[^\s:]{1,128}:(?P<disk>[\w.+-]{1,64})"),
    _place("luks.name=", r"\bluks\.name=[^\s=]{1,64}=(?P<disk>[\w.+-]{1,64})"),
    _place("cryptsetup@", r"\bcryptsetup@(?P<disk>[\w.+\\-]{1,128}?)\.service"),
    _place("cryptography setup", r"\bCryptography Setup for (?P<disk>[\w+-]{1,128})"),
    _place("dev-mapper-", r"\bdev-mapper-(?P<disk>[\w.+\\-]{1,128}?)\.(?:device|swap)\b"),
    _place("by\\x2d", r"\bby\\x2d(?:id|label|partlabel)-(?P<disk>[\w.+\\-]{1,128}?)\.(?:device|swap)\b"),
    _place("device label", r"\bdevice label (?P<disk>\S{1,128}) devid "),
    _place("ifname=", r"\bifname=[^\s:]{1,15}:(?P<mac>[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5})\b"),
    _place("rd.lvm", r"\brd\.lvm\.(?:lv|vg)=(?P<disk>[\w.+/-]{1,128})"),
    _place("=/dev/", rf"\b(?:root|resume|real_root|swap)=/dev/{_VOLUME}"),
    _place("target=", r"\bcryptopts=(?:[^\s,]{1,128},){0,9}target=(?P<disk>[\w.+-]{1,64})"),
    _place("qn.", r"\b(?P<disk>[in]qn\.\d{4}-?\.?\d\d[.:][\w.:-]{1,220})"),
    _place("eui.|naa.|wwn-", r"\b(?:eui\.|naa\.|wwn-)(?P<serial>(?:0x)?[0-9a-fA-F]{16,32})(?![0-9A-Fa-f])"),
    _place("uuid=", r"^(?P<disk>[\w.+-]{1,64})[ \t]{1,20}UUID=\S{1,64}[ \t]{1,20}(?:none|/\S{1,200})[ \t]{1,20}\S{0,40}luks"),
)  # fmt: skip
# A dataset's own parts are private each, so that what stands in a path of GRUB's is found again.
DATASETS = (
    _place(
        "zfs=|zfs:|bootfs=|zfs_pool=",
        r"(?:\bZFS=|\bzfs[=:]|\bbootfs=|\bzfs_pool=)(?P<dataset>[\w.:@+-]{1,128}(?:/[\w.:/@+-]{1,255})?)",
    ),
    _place(
        "zfs", r"^(?P<dataset>[A-Za-z][\w.:-]{0,63}(?:/[\w.:/-]{1,255})?)[ \t]{1,40}(?:/\S{0,200}|none|legacy)[ \t]{1,40}zfs\b"
    ),
)

# What a key of JSON says of its value.
KEYS = {
    "serial": re.compile(rf"(?i)(?:[\w ]{{0,40}}[ _-])?(?:{_SERIAL_NAME}|{_SERIAL_OF})"),
    "host": re.compile(r"(?i)(?:\w{0,40}_)?(?:host|node|pod|computer)_?name|fqdn"),
    "user": re.compile(r"(?i)(?:\w{0,40}_)?(?:user(?:_?name)?|login|logname)"),
    "network": re.compile(r"(?i)e?ssid"),
    "token": re.compile(rf"(?i)[\w-]{{0,40}}{_KEY_NAME}"),
}

# --- shapes -----------------------------------------------------------------------------------------------------------
_APART = r"(?P<apart>-|_|\\x2d)"  # as a path in a unit's name has it, and a pod's in a control group's
UUID = re.compile(
    rf"(?:(?<![0-9A-Za-z])|(?<=\\x2d|-pod))[0-9A-Fa-f]{{8}}{_APART}(?:[0-9A-Fa-f]{{4}}(?P=apart)){{3}}[0-9A-Fa-f]{{12}}(?![0-9A-Za-z])"
)
RAID_UUID = re.compile(r"(?<![\w:.])[0-9a-f]{8}(?::[0-9a-f]{8}){3}(?!\w|[:.]\w)")  # mdadm's
CONTAINER = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])(?<!sha256:.{64})")
HEX32 = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9A-F]{32})(?![0-9A-Za-z])")
# AMD's, and what is left of a UUID that was cut.
GPU_ID = re.compile(r"(?<![A-Za-z0-9])(GPU|MIG)-([0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{1,12}){0,4})(?![0-9A-Za-z-])")
OCTETS = re.compile(r"(?<![\w:.-])[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4,31}(?!\w|[:-]\w)")
INTERFACE = re.compile(r"(?<![A-Za-z0-9])(?:enx|wlx|wwx)([0-9a-f]{12})(?![0-9A-Za-z])")
GUID4 = re.compile(r"(?<![\w:.])[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?!\w|[:.]\w)")
IPV6 = re.compile(r"(?:(?<![\w:.])|(?<=[a-z]\d:))(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}(?!\w|[.:]\w)")
_NUMBER = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
IPV4 = re.compile(rf"(?<![\w.+~])(?<![A-Za-z_][-])(?:{_NUMBER}\.){{3}}{_NUMBER}(?![\w+~]|\.\w|-[A-Za-z])")
AT = re.compile(r"(?<![\w.@/+-])([A-Za-z][\w.+-]{0,63})@([A-Za-z0-9](?:[\w-]{0,62}\.){0,8}[\w-]{0,62})(?![\w@])")

# Right before a number in four parts: what makes it a version, and what makes it an address.
VERSION_BEFORE = re.compile(
    r"(?i)(?:version|(?<![a-z])(?:vers?|v|driver|firmware|fw|v?bios|release|rev(?:ision)?|build|cuda|rocm|toolkit|runtime|kernel|linux|nvml|nccl|rccl"
    r"|amdgpu|uefi|bmc|ifwi|psp|smu|agesa|package|dkms|api|abi|image|library|module|upgraded? to))[ \t:=\"'#(/>-]{0,40}\Z"
)
ADDRESS_BEFORE = re.compile(
    r"(?i)(?:\b(?:from|to|at|on|hosts?|servers?|addr(?:ess(?:es)?)?|ip(?:v4)?|inet|gateway|via|peers?|client|src|dst|dns|nameserver|net"
    r"|connect(?:ed|ing)?|listen(?:ing)?|route|rhost|using|url|endpoint|master|nfsroot|nfs)[ \t:=\"'(\[/<]{1,12}"
    r"|\w=[\"']?|://|@|\b(?:eth|en|ib|wl|bond|br|docker|lo)\w{0,12}:|\[\d{0,3}\])\Z"
)
ADDRESS_AFTER = re.compile(r"(?::\d{2,5}(?!\d)|/\d{1,2}(?!\d)|<\d{1,5}>|%\w|::)")

# --- paths ------------------------------------------------------------------------------------------------------------
_PART = r"[^/\s\"'<>:,;|()\[\]{}*?$&`\\]"
_HOME = r"(?P<base>/(?:home|Users|(?:run/)?media)/)(?P<user>%s{1,64})(?P<tail>(?:/%s{1,255}){0,64})"
_ROOT = r"(?P<base>(?<![\w/)@.-])(?:/root|~)(?=/))(?P<tail>(?:/%s{1,255}){1,64})"
_CUT = r"(?P<base>(?<= )\.\.\.)(?P<tail>%s{1,64}(?:/%s{1,255}){1,64})"  # by nvidia-smi, of a process
_QUOTED = r"[^/\"'\n<>:]"
PATHS = (
    _place("/home/|/users/|/media/", rf"(?P<quote>[\"']){_HOME % (_QUOTED, _QUOTED)}(?=(?P=quote)|/(?P=quote))"),
    _place("/root/|~/", rf"(?P<quote>[\"']){_ROOT % _QUOTED}(?=(?P=quote)|/(?P=quote))"),
    _place("/home/|/users/|/media/", _HOME % (_PART, _PART)),
    _place("/root/|~/", _ROOT % _PART),
    _place(" ...", _CUT % (_PART, _PART)),
)  # fmt: skip
