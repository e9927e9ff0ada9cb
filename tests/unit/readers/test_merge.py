"""What several sources say of the same functions."""

from __future__ import annotations

import pytest

from hostdoctor.facts.host import Environment, Host
from hostdoctor.facts.pci import Function, Link, Power
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.readers.attached.merge import address_of, with_functions

GPU = "0000:43:00.0"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("43:00.0", GPU),
        ("0000:43:00.0", GPU),
        ("00000000:43:00.0", GPU),
        ("0000:43:00", GPU),
        (" 0000:43:00.0\n", GPU),
        ("1A:0.0", "0000:1a:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("", None),
        ("43", None),
        ("43:00:00:00.0", None),
        ("43:20.0", None),
        ("143:00.0", None),
        ("43:00.8", None),
        ("gg:00.0", None),
        ("43:00.", "0000:43:00.0"),
        ("-1:00.0", None),
    ],
)
def test_addresses_as_tools_write_them(text, address):
    assert address_of(text) == address


def host(*functions):
    return with_functions(Host(Environment(Unknown("it is not told")), NOT_CAPTURED), functions)


def function(origin="lspci.txt:1", **facts):
    return Function(address=GPU, **{"vendor": 0x10DE, "device": 0x2204, "class_code": 0x030000, "origin": origin, **facts})


def test_what_was_known_stands_and_gaps_are_filled():
    ours = function(link=Link(2.5, 16, 16.0, 16), numa_node=0, driver=None)
    theirs = function("dmesg.txt:9", link=Link(16.0, 8, 16.0, 16), numa_node=0, subsystem_vendor=0x1462, driver="nvidia")
    (merged,) = host(ours, theirs).functions.values()
    assert merged.link.current_width == 16
    assert (merged.numa_node, merged.subsystem_vendor, merged.driver) == (0, 0x1462, "nvidia")
    assert merged.origin == "lspci.txt:1"


def test_a_power_state_fills_one_that_is_not_told():
    (merged,) = host(function(), function(power=Power("suspended", "D3cold"))).functions.values()
    assert merged.asleep


def test_contradictions_are_named():
    found = host(function(numa_node=0), function("dmesg.txt:9", device=0x2684, numa_node=1))
    assert [(each.subject, each.what, each.said) for each in found.contradictions] == [
        (GPU, "device id", (("lspci.txt:1", "2204"), ("dmesg.txt:9", "2684"))),
        (GPU, "memory node", (("lspci.txt:1", "0"), ("dmesg.txt:9", "1"))),
    ]
    assert found.functions[GPU].device == 0x2204


def test_what_is_not_told_contradicts_nothing():
    assert host(function(), function("smi.txt:3", device=0, class_code=0)).contradictions == ()


def test_functions_come_in_order_of_address():
    other = Function(address="0000:01:00.0", vendor=1, device=1, class_code=0x020000)
    assert list(host(function(), other).functions) == ["0000:01:00.0", GPU]
    assert isinstance(host().functions, Unknown)


@pytest.mark.parametrize(
    ("device", "name", "models"),
    [
        (0x2204, "NVIDIA GeForce RTX 5090", ["model"]),
        (0x2204, "NVIDIA GeForce RTX 3090", []),
        (0x20B5, "NVIDIA A100 80GB PCIe", []),
        (0x20B5, "NVIDIA A100-PCIE-40GB", ["model"]),
        (0x2204, "unheard of", []),
        (0xFFFE, "NVIDIA GeForce RTX 3090", []),
    ],
)
def test_names_that_do_not_fit_the_id(device, name, models):
    known = Function(GPU, 0x10DE, device, 0x030000, origin="lspci.txt:1")
    host = with_functions(Host(Environment(NOT_CAPTURED), NOT_CAPTURED), [known])
    found = with_functions(host, [Function(GPU, 0x10DE, 0, 0x030000, origin="smi.txt:9", name=name)])
    assert [each.what for each in found.contradictions] == models
