"""What is attached: files, folders, standard input and archives, hostile ones too."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import zipfile

import pytest

from hostdoctor.evidence import archives, attached
from hostdoctor.evidence.attached import read_attachments

TEXT = "43:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090]\n"


def texts(*paths):
    return {each.name: each.text for each in read_attachments([str(path) for path in paths]).files}


def problems(*paths):
    return dict(read_attachments([str(path) for path in paths]).unread)


def tar_of(members, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members.items():
            info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            content = b"" if isinstance(data, tarfile.TarInfo) else data
            if not isinstance(data, tarfile.TarInfo):
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def zstd_of(data):
    zstandard = pytest.importorskip("zstandard")
    return zstandard.ZstdCompressor().compress(data)


# --- plain -----------------------------------------------------------------------------------------------------------


def test_files_and_folders(tmp_path):
    (tmp_path / "b.txt").write_text(TEXT)
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "folder" / "below" / "dmesg").write_text("one")
    (tmp_path / "folder" / "a").write_text("two")
    found = read_attachments([str(tmp_path / "b.txt"), str(tmp_path / "folder")])
    assert [(each.name, each.path, each.text) for each in found.files] == [
        ("b.txt", "", TEXT),
        ("a", "a", "two"),
        ("below/dmesg", "below/dmesg", "one"),
    ]
    assert found.unread == ()


def test_standard_input():
    code = "from hostdoctor.evidence.attached import read_attachments; print(read_attachments(['-']).files[0])"
    done = subprocess.run([sys.executable, "-c", code], input=TEXT, capture_output=True, text=True, check=True)
    assert "GeForce RTX 3090" in done.stdout
    assert "standard input" in done.stdout


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to("nowhere")
    assert problems(tmp_path) == {"gone": "No such file or directory", "pipe": "it is no ordinary file"}


def test_links_to_folders_are_not_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "folder" / "circle").symlink_to(tmp_path / "folder")
    assert texts(tmp_path / "folder") == {}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TEXT.encode("utf-16"), TEXT),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), TEXT),
        ("févr. 11".encode("latin-1"), "f\ufffdvr. 11"),
        (b"a line with a stray \0 in it, as some logs have", "a line with a stray \0 in it, as some logs have"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    ],
)
def test_texts_in_other_clothes(tmp_path, data, text):
    (tmp_path / "file").write_bytes(data)
    assert texts(tmp_path / "file")["file"].lstrip("\ufeff") == text


@pytest.mark.parametrize("data", [bytes(range(256)) * 8, b"\x7fELF" + b"\0" * 200, os.urandom(1000)])
def test_what_is_no_text(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    assert texts(tmp_path / "file") == {}
    assert problems(tmp_path / "file") == {"file": "it is no text"}


def test_an_empty_file_is_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert (texts(tmp_path), problems(tmp_path)) == ({}, {})


def test_a_text_that_is_too_long_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "_TEXT_LIMIT", 1 << 20)
    (tmp_path / "file").write_bytes(b"x" * (1 << 20) + b"y")
    assert set(texts(tmp_path / "file")["file"]) == {"x"}
    assert problems(tmp_path / "file") == {"file": "what follows its first 1 MiB was left out"}


def test_more_files_than_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"file{number}").write_text("text")
    assert len(texts(tmp_path)) == 3
    assert problems(tmp_path) == {str(tmp_path): "it holds more than 3 files"}


# --- packed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pack", "inner"),
    [
        ("log.gz", gzip.compress, "log"),
        ("log.xz", lzma.compress, "log"),
        ("log.bz2", bz2.compress, "log"),
        ("log.zst", zstd_of, "log"),
        ("anything", gzip.compress, "anything"),
    ],
)
def test_compressed_texts(tmp_path, name, pack, inner):
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    assert texts(tmp_path / name) == {inner: TEXT}


def test_several_streams_in_one_file(tmp_path):
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two") + b"\0" * 512)
    (tmp_path / "log.xz").write_bytes(lzma.compress(b"one ") + lzma.compress(b"two"))
    assert texts(tmp_path) == {"log": "one two"} | {"log": "one two"}
    assert problems(tmp_path) == {}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_archives_name_what_is_in_them(tmp_path, mode):
    (tmp_path / "bug.tar").write_bytes(tar_of({"host/proc/cmdline": b"quiet", "host/lspci": TEXT.encode()}, mode))
    found = read_attachments([str(tmp_path / "bug.tar")])
    assert [(each.name, each.path, each.text) for each in found.files] == [
        ("bug.tar/host/proc/cmdline", "host/proc/cmdline", "quiet"),
        ("bug.tar/host/lspci", "host/lspci", TEXT),
    ]


def test_a_zip_and_an_archive_in_it(tmp_path):
    (tmp_path / "bug.zip").write_bytes(zip_of({"a.txt": "one", "b.tar.gz": tar_of({"c": b"two"}, "w:gz")}))
    assert texts(tmp_path / "bug.zip") == {"bug.zip/a.txt": "one", "bug.zip/b.tar/c": "two"}


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstd_of])
def test_a_cut_file_gives_what_came_before(tmp_path, pack):
    lines = "".join(f"[{number:12.6f}] a line of some log {number * 7919 % 1009}\n" for number in range(60_000))
    packed = pack(lines.encode())
    (tmp_path / "log").write_bytes(packed[: len(packed) * 9 // 10])
    found = read_attachments([str(tmp_path / "log")])
    assert lines.startswith(found.files[0].text.rstrip("\ufffd")[:1000])
    assert len(found.files[0].text) < len(lines)


def test_a_cut_gzip_file_says_so(tmp_path):
    packed = gzip.compress(TEXT.encode() * 100)
    (tmp_path / "log.gz").write_bytes(packed[:-20])
    assert problems(tmp_path) == {"log": "it is damaged or cut: gzip cannot read it to its end"}


@pytest.mark.parametrize("magic", [b"\x1f\x8b\x08", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"])
def test_what_only_begins_like_an_archive(tmp_path, magic):
    (tmp_path / "file").write_bytes(magic + os.urandom(500))
    assert texts(tmp_path) == {}
    assert len(problems(tmp_path)) <= 1


# --- hostile ---------------------------------------------------------------------------------------------------------


def special(name, type_, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = type_, target
    return info


def test_names_that_lead_out_are_only_names(tmp_path):
    hostile = {
        "../../../etc/passwd": b"one",
        "/etc/shadow": b"two",
        "link": special("link", tarfile.SYMTYPE, "/etc/passwd"),
        "hard": special("hard", tarfile.LNKTYPE, "/etc/passwd"),
        "device": special("device", tarfile.CHRTYPE),
        "pipe": special("pipe", tarfile.FIFOTYPE),
    }
    (tmp_path / "bug.tar").write_bytes(tar_of(hostile))
    before = sorted(os.listdir(tmp_path))
    assert sorted(texts(tmp_path / "bug.tar").values()) == ["one", "two"]
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstd_of])
def test_a_bomb_is_left_alone(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(attached, "TOTAL_LIMIT", 4 << 20)
    (tmp_path / "bomb").write_bytes(pack(b"0" * (64 << 20)))
    found = read_attachments([str(tmp_path / "bomb")])
    assert sum(len(each.text) for each in found.files) <= 4 << 20
    assert [why for _, why in found.unread] == ["unpacked it is larger than what is read of attachments"]


def test_a_bomb_in_a_zip(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "TOTAL_LIMIT", 4 << 20)
    (tmp_path / "bomb.zip").write_bytes(zip_of({"zeros": b"0" * (64 << 20), "text": b"text"}))
    assert texts(tmp_path) == {"bomb.zip/text": "text"}
    assert problems(tmp_path) == {"bomb.zip/zeros": "it is larger than what is read of attachments"}


def test_a_zip_that_lies_about_a_size(tmp_path):
    data = bytearray(zip_of({"text": b"A" * 10_000}))
    for offset in (data.find(b"PK\x01\x02") + 24, 22):
        struct.pack_into("<I", data, offset, 10)
    (tmp_path / "bug.zip").write_bytes(bytes(data))
    assert all(len(text) <= 10 for text in texts(tmp_path).values())


def sparse_member(name, size):
    """A member of a tar that says it is that large with its holes, and holds five bytes (GNU tar, old sparse format)."""
    info = tarfile.TarInfo(name)
    info.size = 5
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    places = b"".join(tarfile.itn(number, 12, tarfile.GNU_FORMAT) for number in (0, 5, size, 0))
    header[345:512] = (b"\0" * 41 + places).ljust(138, b"\0") + tarfile.itn(size, 12, tarfile.GNU_FORMAT).ljust(29, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"text\n".ljust(512, b"\0")


def test_a_bomb_of_holes_in_a_tar(tmp_path):
    (tmp_path / "bomb.tar").write_bytes(sparse_member("zeros", 1 << 40) + sparse_member("small", 5) + bytes(1024))
    assert list(texts(tmp_path)) == ["bomb.tar/small"]
    assert problems(tmp_path) == {"bomb.tar/zeros": "it is larger than what is read of attachments"}


def test_archives_in_archives_end(tmp_path):
    data = b"text"
    for _ in range(archives._DEEPEST + 1):
        data = gzip.compress(data)
    (tmp_path / "file").write_bytes(data)
    assert texts(tmp_path) == {}
    assert problems(tmp_path) == {"file": "archives in archives, deeper than anybody packs them"}


def test_a_million_members_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "MOST_FILES", 100)
    (tmp_path / "many.tar").write_bytes(tar_of({f"file{number}": b"" for number in range(1000)}))
    assert problems(tmp_path) == {"many.tar": "it holds more files than are read of attachments"}


def test_an_archive_that_is_cut_gives_what_came_before(tmp_path):
    whole = tar_of({"one": b"1" * 600, "two": b"2" * 600})
    (tmp_path / "bug.tar").write_bytes(whole[:1800])
    assert texts(tmp_path)["bug.tar/one"] == "1" * 600
    assert list(problems(tmp_path).values()) == ["the archive is damaged or cut: what follows in it cannot be read"]
