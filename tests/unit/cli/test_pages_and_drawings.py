"""`scan --format html` and `topology --format svg`."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest


def test_a_page(hostdoctor, before, tmp_path):
    done = hostdoctor("scan", "--root", before, "--format", "html")
    assert done.returncode == 1
    assert done.stdout.startswith("<!DOCTYPE html>")
    assert "0000:1a:00.0" in done.stdout
    assert hostdoctor("scan", "--root", before, "--format", "html", "-o", tmp_path / "page.html").stdout == ""
    assert (tmp_path / "page.html").read_text("utf-8") == done.stdout


def test_a_drawing(hostdoctor, seed, tmp_path):
    done = hostdoctor("topology", "--root", seed, "--format", "svg")
    assert done.returncode == 0
    assert ElementTree.fromstring(done.stdout).tag == "{http://www.w3.org/2000/svg}svg"
    assert hostdoctor("topology", "--root", seed, "--format", "svg", "-o", tmp_path / "a.svg").stdout == ""
    assert (tmp_path / "a.svg").read_text("utf-8") == done.stdout


def test_a_tree_in_a_file(hostdoctor, seed, tmp_path):
    hostdoctor("topology", "--root", seed, "-o", tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text("utf-8") == hostdoctor("topology", "--root", seed).stdout


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--all", "--format", "svg"], 2, "--all is for text"),
        (["--format", "png"], 2, "'png'"),
        (["--format", "svg", "-o", "/nowhere/a.svg"], 3, "/nowhere/a.svg: No such file or directory"),
    ],
)
def test_what_cannot_be_drawn(hostdoctor, seed, options, code, says):
    done = hostdoctor("topology", "--root", seed, *options)
    assert done.returncode == code
    assert says in done.stderr
