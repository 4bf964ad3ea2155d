"""The settings of a broker that are about delayed delivery."""

from headrace.model.settings import Kind, Setting

DELAY_SETTINGS = (
    Setting(
        name="headrace.delay.topic.num.partitions",
        kind=Kind.INT,
        default=10,
        doc="How many partitions `__headrace_delayed` gets when it is made. Each that a broker leads costs it up to a megabyte"
        " of memory.",
        minimum=1,
    ),
    Setting(
        name="headrace.delay.topic.replication.factor",
        kind=Kind.SHORT,
        default=3,
        doc="How many replicas `__headrace_delayed` gets when it is made, as far as there are brokers. Of three, two must be in"
        " sync for a delayed record to be taken.",
        minimum=1,
    ),
    Setting(
        name="headrace.delay.clock.confirm.ms",
        kind=Kind.LONG,
        default=300_000,
        doc="How long the machine's clock must stay set ahead before delayed records are delivered by it: a clock that jumps by"
        " mistake is set right by then, and nothing came early. One that is set back is believed at once.",
        minimum=0,
    ),
)
