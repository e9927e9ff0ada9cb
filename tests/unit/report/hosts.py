"""Hosts to draw: small, large, healthy, sick, empty and hostile ones."""

from __future__ import annotations

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.unknown import Unknown
from hostdoctor.registry import built_in
from hostdoctor.report import model
from hostdoctor.view import View
from tests.unit import build
from tests.unit.build import FIRST, SECOND

MARKUP = (
    '"><script>window.ran=1</script><img src=x onerror="window.ran=2">]]>\x1b[31m\u202e{{7*7}}'
    "</style></title></svg>\ud800"
)  # fmt: skip


def report(host, kind="live"):
    """The report of a host, judged by every check."""
    view = View(host)
    sources = model.Sources(kind, ("/",), (model.Unread("/sys/x", "no permission"),), ("/proc/cmdline",))
    return model.build(sources, view, diagnose(view, built_in()), 0)


def one_gpu():
    return build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1"))


def no_gpu():
    return build.host()


def guest():
    return build.host(build.two_navi_cards(at=build.link(8.0, 8, 16.0, 16)), environment=build.GUEST)


def nothing_above():
    why = Unknown("the kernel's log here does not list what is above it, nor does anything else that was attached")
    return build.host(build.gpu("0000:41:00.0", build.A5000, why), build.gpu("0000:81:00.0", build.A5000, why))


def switches(count, domain=0):
    """Host bridges with a switch each: four GPUs, one of them on too few lanes, a network card and three drives."""
    for number in range(count):
        bus = number * 32
        root, up = f"{domain:04x}:{bus:02x}:01.0", f"{domain:04x}:{bus + 1:02x}:00.0"
        yield build.root_port(root, numa_node=domain, at=build.link(32.0, 16))
        yield build.upstream_port(up, "1000:c030", below=root, at=build.link(32.0, 16))
        for place in range(8):
            port, device = f"{domain:04x}:{bus + 2:02x}:{place:02x}.0", f"{domain:04x}:{bus + 3 + place:02x}:00.0"
            yield build.downstream_port(port, "1000:c030", below=up, acs=build.NO_REDIRECT, at=build.link(32.0, 16))
            if place < 4:
                at = build.link(32.0, 8, 32.0, 16) if place == 2 else build.link(32.0, 16)
                yield build.gpu(device, build.H100, port, numa_node=domain, at=at)
            elif place == 4:
                yield build.rdma_card(device, port, link=build.link(32.0, 16))
            else:
                yield build.nvme(device, port, link=build.link(16.0, 4))


def eight_gpus():
    return build.host(*switches(2), network=build.network(mlx5_0="0000:07:00.0", mlx5_1="0000:27:00.0"))


def sixty_four_gpus():
    parts = [*switches(8), *switches(8, domain=1)]
    gpus = [each.address for each in parts if each.base_class == 3]
    copies = [build.copy(a, b, 20.0 + (n % 7) + 300 * (a == b)) for a in gpus for n, b in enumerate(gpus)]
    return build.host(*parts, nodes=(0, 1), runs=(build.run(*copies),))


def deep():
    """Switch below switch below switch."""
    parts, above = [build.root_port("0000:00:01.0")], "0000:00:01.0"
    for bus in range(1, 25, 2):
        parts += build.switch(bus, above, ports=1)
        above = f"0000:{bus + 1:02x}:00.0"
    return build.host(*parts, build.gpu("0000:30:00.0", build.A5000, above))


def measured():
    """Two GPUs: a wrong copy and one that is withheld for it, one without a figure, direct and staged ones, latencies."""
    run = build.run(
        build.copy(FIRST, SECOND, 25.1),
        build.copy(FIRST, SECOND, 26.4),
        build.copy(SECOND, FIRST, 24.2),
        build.copy(FIRST, FIRST, 411.0),
        build.copy("host:0", FIRST, 26.0),
        build.copy(FIRST, "host:0", None),
        build.copy("host:0", SECOND, 13.37),
        build.copy(SECOND, "host:0", 12.6),
        build.copy(FIRST, SECOND, None, latency_us=1.7),
        verified=(("host:0", SECOND, False), (FIRST, SECOND, True)),
    )
    both = build.run(
        build.copy(FIRST, SECOND, 48.5, both_ways=True, peer_access=True),
        build.copy(FIRST, SECOND, 9.5, both_ways=True, peer_access=False),
        tool="p2pBandwidthLatencyTest",
    )
    return build.host(build.two_navi_cards(at=build.link(8.0, 8, 16.0, 16)), runs=(run, both))


def hostile():
    """Markup wherever a host has a say."""
    run = build.run(
        build.copy(FIRST, SECOND, 25.0, source=MARKUP),
        build.copy(f"host:{MARKUP}", FIRST, 3.0),
        tool=MARKUP,
        verified=((FIRST, MARKUP, False),),
    )
    named = [
        build.root_port("0000:20:01.1"),
        build.function("0000:21:00.0", "1002:0000", 0x030000, parent="0000:20:01.1", name=MARKUP, driver=MARKUP, origin=MARKUP),
    ]
    return build.host(
        build.two_navi_cards(),
        named,
        command_line=MARKUP,
        cpu=build.Cpu("AuthenticAMD", 0x17, 0x31, MARKUP),
        kernel=MARKUP,
        runs=(run,),
        log=build.log(build.event("xid", FIRST, MARKUP)),
    )


HOSTS = {
    each.__name__: each
    for each in (one_gpu, no_gpu, guest, nothing_above, eight_gpus, sixty_four_gpus, deep, measured, hostile)
}  # fmt: skip
