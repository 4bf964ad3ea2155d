"""Kafka's tools at a closed broker, as a story of commands: users and rules made by them, and records by every mechanism.

Each row names who asks: a file of client settings.  The console tools end with 0 where they are refused: their log alone tells
why, so that what counts is how many records they had.
"""

from tests.compat.java.tools_table import Case, case
from tests.compat.security.stage import MINE, WAYS

BOB = "configs --entity-type users --entity-name bob"
STRONGER = "SCRAM-SHA-512=[iterations=8192,password=bob-secret]"
WEAKER = "SCRAM-SHA-256=[password=bob-secret]"
WHY_NOT_BOTH = "Kafka's own page has it so, and its KRaft refuses a user twice in one request"
NOT_SIGNED_IN = "Error while executing topic command : Authentication failed"
WRITE = case("console-producer --topic orders", 0, given="one\ntwo\n")
READ = "console-consumer --topic orders --from-beginning --max-messages 2 --timeout-ms 20000 --group readers"

USERS = (
    ("root", case(f"{BOB} --alter --add-config {STRONGER},{WEAKER}", 0, "Completed updating", kafka=1, why=WHY_NOT_BOTH)),
    ("root", case(f"{BOB} --alter --add-config {STRONGER}", 0, "Completed updating config for user bob")),
    ("root", case(f"{BOB} --alter --add-config {WEAKER}", 0, "Completed updating config for user bob")),
    (
        "root",
        case(
            f"{BOB} --describe",
            0,
            "SCRAM credential configs for user-principal 'bob' are .*SCRAM-SHA-256=iterations=4096",
            "SCRAM credential configs for user-principal 'bob' are .*SCRAM-SHA-512=iterations=8192",
        ),
    ),
    ("root", case("configs --entity-type users --describe", 0, "user-principal 'bob' are", "user-principal 'ann' are")),
    (
        "root",
        case(
            f"{BOB} --alter --add-config SCRAM-SHA-512=[iterations=100,password=x]",
            1,
            "4096",
        ),
    ),
    ("ann", case(f"{BOB} --alter --add-config SCRAM-SHA-512=[password=stolen]", 1, "ClusterAuthorizationException")),
    ("ann", case(f"{BOB} --describe", 1, "ClusterAuthorizationException")),
)

RULES = (
    ("bob", case("topics --create --topic orders", 1, "Error while executing topic command : ")),
    ("root", case("topics --create --topic orders --partitions 1", 0, "Created topic orders")),
    ("bob", case("topics --describe --topic orders", 1, "does not exist|AuthorizationException")),
    ("bob", case("console-producer --topic orders", 0, given="not written\n")),
    (
        "root",
        case(
            "acls --add --allow-principal User:bob --producer --topic orders",
            0,
            r"Adding ACLs for resource `ResourcePattern\(resourceType=TOPIC, name=orders, patternType=LITERAL\)`",
            r"\(principal=User:bob, host=\*, operation=WRITE, permissionType=ALLOW\)",
            r"\(principal=User:bob, host=\*, operation=CREATE, permissionType=ALLOW\)",
        ),
    ),
    ("bob", WRITE),
    ("bob", case("topics --list", 0, r"\Aorders$")),
    ("bob", case(READ, 0, "total of 0")),
    (
        "root",
        case(
            "acls --add --allow-principal User:bob --consumer --topic orders --group read --resource-pattern-type prefixed",
            0,
            r"ResourcePattern\(resourceType=GROUP, name=read, patternType=PREFIXED\)",
        ),
    ),
    ("bob", case(READ, 0, "^one$", "^two$", "total of 2")),
    ("bob", case("consumer-groups --describe --group readers", 0, "readers +orders +0 +2 +2 +0")),
    (
        "root",
        case(
            "acls --add --deny-principal User:bob --deny-host 127.0.0.1 --operation Read --topic orders", 0, "permissionType=DENY"
        ),
    ),
    (
        "bob",
        case(READ.replace("readers", "reading"), 0, "total of 0"),
    ),
    (
        "root",
        case(
            "acls --list --topic orders",
            0,
            r"resourceType=TOPIC, name=orders, patternType=LITERAL",
            r"\(principal=User:bob, host=127.0.0.1, operation=READ, permissionType=DENY\)",
        ),
    ),
    ("root", case("acls --list --topic orders --resource-pattern-type match", 0, "patternType=PREFIXED", "patternType=LITERAL")),
    ("root", case("acls --list --principal User:ann", 0, f"name={MINE}, patternType=PREFIXED", r"\A((?!User:bob)[\s\S])*\Z")),
    ("root", case("acls --list --topic nothing", 0, r"\A\s*\Z")),
    (
        "root",
        case(
            "acls --remove --force --deny-principal User:bob --deny-host 127.0.0.1 --operation Read --topic orders",
            0,
            r"\A((?!DENY)[\s\S])*\Z",
        ),
    ),
    ("bob", case(READ.replace("readers", "reading"), 0, "total of 2")),
    (
        "root",
        case(
            "acls --add --allow-principal User:bob --operation Describe --cluster", 0, "resourceType=CLUSTER, name=kafka-cluster"
        ),
    ),
    ("bob", case("acls --list", 0, "principal=User:bob")),
    ("bob", case("acls --add --allow-principal User:bob --operation All --topic '*'", 1, "ClusterAuthorizationException")),
    ("ann", case("acls --list", 1, "ClusterAuthorizationException")),
    ("ann", case("acls --remove --force --topic orders", 1, "ClusterAuthorizationException")),
    (
        "root",
        case(
            "acls --add --allow-principal User:bob --transactional-id loads --operation Write", 0, "TRANSACTIONAL_ID, name=loads"
        ),
    ),
    ("root", case("acls --remove --force --transactional-id loads", 0)),
    ("root", case("acls --add --allow-principal bob --operation Read --topic orders", 1, "bob")),
    ("root", case("delegation-tokens --describe", 1, "DelegationTokenDisabledException")),
    ("root", case("delegation-tokens --create --max-life-time-period -1", 1, "DelegationTokenDisabledException")),
)

RECORDS = tuple(
    (f"ann-{way}", step)
    for way in WAYS
    for step in (
        case(f"console-producer --topic {MINE}{way}", 0, r"\A((?!Exception)[\s\S])*\Z", given="one\ntwo\n"),
        case(
            f"console-consumer --topic {MINE}{way} --from-beginning --max-messages 2 --timeout-ms 20000 --group {MINE}{way}",
            0,
            "^one$",
            "^two$",
            "total of 2",
        ),
    )
)

REFUSED = (
    *((f"wrong-{way}", case("topics --list", 1, NOT_SIGNED_IN)) for way in WAYS if way.has_password),
    ("stranger", case("topics --list", 1, "Timed out waiting for a node|SSL handshake failed|post-handshake")),
    ("root", case(f"{BOB} --alter --delete-config SCRAM-SHA-512", 0, "Completed")),
    ("root", case(f"{BOB} --alter --delete-config SCRAM-SHA-256", 0, "Completed")),
    ("root", case(f"{BOB} --describe", 0, r"\A((?!SCRAM-SHA)[\s\S])*\Z")),
    ("bob", case("topics --list", 1, NOT_SIGNED_IN)),
    ("root", case("acls --remove --force --topic orders", 0)),
    ("root", case("acls --list --topic orders", 0, r"\A\s*\Z")),
)

STEPS: tuple[tuple[str, Case], ...] = (*USERS, *RULES, *RECORDS, *REFUSED)
