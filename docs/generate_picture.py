"""Draw architecture.svg, the house with its floors, its rooms and the journeys through it.

The rooms are declared here once; a test holds them against the tree, so that the picture cannot name one that is gone or lack
one that is new.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1180, 930
# Around the rooms of the broker: from where, and how far.
BROKER = (28, 215, 814, 281)
# From the middle of a room to the gap above it.
ABOVE = 33
FONT = "font-family='system-ui, -apple-system, Segoe UI, sans-serif'"


@dataclass(frozen=True)
class Room:
    """A package, or a folder of one, where the picture shows it."""

    folder: str
    says: str
    x: int
    y: int
    width: int
    height: int = 44

    @property
    def middle(self) -> tuple[int, int]:
        return self.x + self.width // 2, self.y + self.height // 2


@dataclass(frozen=True)
class Journey:
    """What a request passes on its way, as a line from room to room."""

    name: str
    says: str
    colour: str
    # How far beside the middle of each room the line runs, so that lines do not cover each other.
    beside: int
    rooms: tuple[str, ...]


@dataclass(frozen=True)
class Floor:
    """A layer of the import rules: everything on it may import what is below, never what is above."""

    name: str
    says: str
    y: int
    height: int
    colour: str


FLOORS = (
    Floor("users of the wire", "know an address and the protocol, nothing of the broker", 20, 116, "#e8f1fb"),
    Floor("shells", "sockets, tasks and time: they carry out what the floors below decide", 186, 324, "#fdf3e1"),
    Floor("decisions", "functions of state and input: no I/O, no await, no clock", 530, 88, "#eaf6ea"),
    Floor("storage", "synchronous: one partition's log on a disk that is handed in", 632, 88, "#f4ecf7"),
    Floor("formats and ground", "bytes to values and back; names, settings, clock, disk, entropy", 734, 88, "#f0f0f0"),
)

ROOMS = (
    Room("testing", "a broker in a test", 40, 70, 130),
    Room("cli", "the commands", 184, 70, 112),
    Room("console", "in a browser", 310, 70, 112),
    Room("gateway", "HTTP, webhooks", 436, 70, 118),
    Room("spark", "source, sink", 568, 70, 100),
    Room("pyspark_headrace", "for Spark's own loader", 682, 70, 154),
    Room("client", "the SDK, over librdkafka", 850, 70, 290),
    Room("broker/network", "listeners, connections, memory, dispatch", 40, 240, 290),
    Room("broker/handlers", "one file per API", 350, 240, 250),
    Room("broker/administration", "topics, settings, limits", 620, 240, 210),
    Room("broker/following", "following other leaders", 40, 306, 160),
    Room("broker/delaying", "what is not due yet", 210, 306, 120),
    Room("broker/tls", "certificates", 350, 306, 126),
    Room("broker/sign_in", "SASL, tokens", 350, 438, 126),
    Room("broker/fetching", "a Fetch's states", 488, 306, 112),
    Room("broker/cluster", "leaders, in-sync", 620, 306, 108),
    Room("broker/scheduling", "cron", 738, 306, 92),
    Room("broker/housekeeping", "retention, compaction", 40, 372, 160),
    Room("broker/tiering", "uploads, old reads", 210, 372, 120),
    Room("broker/partitions", "replicas, flushing", 350, 372, 126),
    Room("broker/sharing", "share groups", 488, 372, 112),
    Room("broker/coordinators", "groups, transactions", 620, 372, 210),
    Room("broker/health", "its disk", 40, 438, 62),
    Room("broker/supervision", "tree of tasks", 108, 438, 92),
    Room("broker/metrics", "counting", 206, 438, 60),
    Room("broker/tracing", "requests", 272, 438, 58),
    Room("broker/access", "who may what", 488, 438, 112),
    Room("broker/audit", "what was done", 620, 438, 112),
    Room("broker/telemetry", "of clients", 742, 438, 88),
    Room("metadata", "memory, SQLite, etcd", 860, 240, 280),
    Room("security", "who, what, quotas", 860, 372, 130),
    Room("objects", "object stores", 1010, 372, 130),
    Room("replication", "in-sync set, high watermark", 40, 568, 290),
    Room("tier", "manifests, uploads, leftovers", 350, 568, 250),
    Room("coordination", "groups, transactions", 620, 568, 210),
    Room("controller", "image, placement, elections", 860, 568, 280),
    Room("log", "segments, indexes, recovery", 350, 670, 250),
    Room("records", "batches, compression", 40, 772, 180),
    Room("wire", "messages, codec, framing", 240, 772, 170),
    Room("metrics", "counters, formats", 430, 772, 130),
    Room("model", "names, errors, settings", 580, 772, 250),
    Room("host", "clock, disk, entropy, signals", 860, 772, 280),
    Room("registry", "schemas and their versions", 850, 24, 290, 40),
)

JOURNEYS = (
    Journey(
        "produce",
        "a batch is checked, appended, flushed, copied; then it is acknowledged",
        "#c0392b",
        -9,
        ("client", "broker/network", "broker/handlers", "broker/partitions", "log", "host"),
    ),
    Journey(
        "consume",
        "a Fetch reads what is committed, or waits until there is more",
        "#2471a3",
        9,
        ("client", "broker/network", "broker/handlers", "broker/fetching", "broker/partitions", "log"),
    ),
    Journey(
        "decide",
        "a coordinator appends what was decided; replies once committed",
        "#1e8449",
        0,
        ("broker/handlers", "broker/coordinators", "coordination"),
    ),
    Journey(
        "follow",
        "a follower fetches from its leader and appends; the in-sync set follows",
        "#7d3c98",
        0,
        ("broker/network", "broker/following", "broker/partitions", "replication"),
    ),
    Journey(
        "administer",
        "a change is one transaction on the store; every broker applies it",
        "#b9770e",
        0,
        ("broker/handlers", "broker/administration", "metadata", "controller"),
    ),
)


def picture() -> str:
    """The whole drawing."""
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' {FONT} role='img' "
        "aria-label='The packages of Headrace by floors, and the way of requests through them'>",
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>",
        *(_floor(floor) for floor in FLOORS),
        _street(),
        "<rect x='{}' y='{}' width='{}' height='{}' rx='10' fill='none' stroke='#c9a66b' stroke-width='1.5'/>".format(*BROKER),
        _text(40, 494, "broker", 12, "#8a6d3b", bold=True),
        *(_line(journey) for journey in JOURNEYS),
        *(_sign(floor) for floor in FLOORS),
        *(_room(room) for room in ROOMS),
        *_legend(),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _text(x: int, y: int, text: str, size: int, colour: str = "#222", *, bold: bool = False, centred: bool = False) -> str:
    weight = " font-weight='600'" if bold else ""
    anchor = " text-anchor='middle'" if centred else ""
    return f"<text x='{x}' y='{y}' font-size='{size}' fill='{colour}'{weight}{anchor}>{escape(text)}</text>"


def _floor(floor: Floor) -> str:
    return f"<rect x='14' y='{floor.y}' width='{WIDTH - 28}' height='{floor.height}' rx='12' fill='{floor.colour}'/>"


def _sign(floor: Floor) -> str:
    name = f"<tspan font-weight='600'>{floor.name}</tspan>"
    # The outline keeps it readable where a line passes.
    outline = f"stroke='{floor.colour}' stroke-width='5' paint-order='stroke'"
    return f"<text x='40' y='{floor.y + 22}' font-size='13' fill='#444' {outline}>{name}  ·  {escape(floor.says)}</text>"


def _street() -> str:
    rule = f"<line x1='14' y1='161' x2='{WIDTH - 14}' y2='161' stroke='#888' stroke-width='1.5' stroke-dasharray='7 5'/>"
    return rule + _text(40, 155, "Kafka's wire protocol: all that the two sides have in common", 13, "#555")


def _room(room: Room) -> str:
    middle = room.x + room.width // 2
    box = (
        f"<rect x='{room.x}' y='{room.y}' width='{room.width}' height='{room.height}' rx='7' fill='white' "
        "fill-opacity='0.93' stroke='#666'/>"
    )
    name = _text(middle, room.y + 18, room.folder.removeprefix("broker/"), 13, bold=True, centred=True)
    return box + name + _text(middle, room.y + 35, room.says, 11, "#555", centred=True)


def _line(journey: Journey) -> str:
    where = {room.folder: room.middle for room in ROOMS}
    points = list(_corners([where[name] for name in journey.rooms], journey.beside))
    path = " ".join(f"{'M' if n == 0 else 'L'}{x} {y}" for n, (x, y) in enumerate(points))
    end_x, end_y = points[-1]
    return (
        f"<path d='{path}' fill='none' stroke='{journey.colour}' stroke-width='3' stroke-linejoin='round' stroke-opacity='0.75'/>"
        f"<circle cx='{end_x}' cy='{end_y}' r='5' fill='{journey.colour}'/>"
    )


def _corners(places: list[tuple[int, int]], beside: int) -> Iterator[tuple[int, int]]:
    """From middle to middle, along the axes only."""
    x, y = places[0][0] + beside, places[0][1] + beside
    yield x, y
    for middle_x, middle_y in places[1:]:
        goal_x, goal_y = middle_x + beside, middle_y + beside
        if goal_x != x and goal_y != y:
            # Along the gap above the next room, which the line enters from there.
            above = middle_y - ABOVE + beside // 2
            yield x, above
            yield goal_x, above
        yield goal_x, goal_y
        x, y = goal_x, goal_y


def _legend() -> Iterator[str]:
    for n, journey in enumerate(JOURNEYS):
        x, y = (40, 846 + 24 * n) if n < 3 else (600, 846 + 24 * (n - 3))
        yield f"<line x1='{x}' y1='{y}' x2='{x + 30}' y2='{y}' stroke='{journey.colour}' stroke-width='4'/>"
        name = f"<tspan font-weight='600'>{journey.name}</tspan>"
        yield f"<text x='{x + 40}' y='{y + 4}' font-size='12' fill='#333'>{name}: {escape(journey.says)}</text>"
