"""What each alert means and what to do: the page that an alert links to, written beside the rules and into docs/runbook.md."""

from headrace.cli.monitoring.rules import GROUPS, Alert

OPENING = """# Runbook

A section for each alert of `headrace monitoring write`: what it means, and what to do. What a broker itself complains of is
in `headrace cluster status`; most answers begin there. Thresholds are in `rules/headrace.yml`: change them there.
"""
TITLES = {"brokers": "Brokers", "replication": "Replication", "disk": "Disk", "clients": "Producers, consumers, pipelines"}

# By alert: what it means, and what to do, step by step.
TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "HeadraceBrokerDown": (
        "Prometheus cannot read the broker's metrics. The broker has ended, hangs, or is cut off from Prometheus; in the "
        "last case "
        "clients may notice nothing.",
        (
            "`headrace cluster status` asks another broker who is alive. If the broker is among them, look at the network "
            "between Prometheus and `headrace.metrics.listener`.",
            "If it is not, look at its last log lines, and at `dmesg` for a process that was killed for its memory.",
            "Start it again with the same data directory. It catches up by itself; `/ready` says when.",
        ),
    ),
    "HeadraceNoController": (
        "No broker holds the controller's office. What is served goes on; no leader is elected, no topic made or changed.",
        (
            "The office hangs on the metadata store: see whether etcd answers and has a leader (`etcdctl endpoint status`).",
            "Look at `headrace_metadata_failures_total` and the brokers' logs. A broker takes the office by itself as soon as it "
            "reaches the store.",
        ),
    ),
    "HeadracePartitionsLeaderless": (
        "All replicas that may lead a partition are down, so that it is neither written nor read. Nothing is lost by waiting.",
        (
            "`headrace cluster status` names the brokers that are missing. Bring one of the in-sync replicas back: it "
            "leads at once.",
            "Only if none of them will ever come back: `unclean.leader.election.enable=true` on the topic gives the partition to "
            "a replica that may lack records.",
        ),
    ),
    "HeadraceEventLoopLate": (
        "The broker's one thread for requests is busy or was stopped: by too much work, by a machine that has no processor left, "
        "or by memory that is swapped out.",
        (
            "Compare *Processor* on the dashboard: near 1 means that the broker has more work than a core does. Look for many "
            "small batches (`headrace_batch_records`), raise producers' linger, move leaders to other brokers.",
            "Processor low and the loop late: look at steal time, swapping, and the garbage collector "
            "(`headrace_gc_pause_seconds_total`).",
        ),
    ),
    "HeadraceCertificateExpires": (
        "The certificate of a listener ends within two weeks. From that moment on new connections fail, also those "
        "between brokers.",
        (
            "Put a new certificate and key where the old ones are. The broker takes them up by itself; nobody is disconnected.",
            "The alert clears when `headrace_certificate_expiry_seconds` shows the new date.",
        ),
    ),
    "HeadraceMetadataStoreFails": (
        "Requests to the metadata store fail or are refused. A broker that cannot renew its lease stops leading before the lease "
        "ends (`headrace_lease_left_seconds`).",
        (
            "See whether etcd answers, has a leader and room on its disk (`etcdctl endpoint health`, `etcdctl alarm list`).",
            "If only one broker is concerned, look at its network and its certificate for etcd.",
        ),
    ),
    "HeadraceInSyncSetShrunk": (
        "Partitions have fewer replicas in sync than they should. They are served; one more failure may stop them.",
        (
            "`headrace cluster status` says which broker is missing or behind. If it is down, start it.",
            "If it is up, see HeadraceReplicationLags. If a disk failed, see HeadracePartitionsOffline.",
            "While a broker is drained or replaced on purpose, silence the alert for as long as that takes.",
        ),
    ),
    "HeadraceUnderMinimumInSync": (
        "Partitions have fewer replicas in sync than `min.insync.replicas`: producers with `acks=all` are told "
        "NOT_ENOUGH_REPLICAS, "
        "and readers see nothing newer.",
        (
            "Bring the missing brokers back: `headrace cluster status` names them.",
            "Lower `min.insync.replicas` of the topic only if you accept that one more failure loses records.",
        ),
    ),
    "HeadraceReplicationLags": (
        "A follower cannot keep up with a leader: its disk or network is slow, the leader is overloaded, or it is copying "
        "after a "
        "restart.",
        (
            "After a restart, or while partitions are moved, the lag falls by itself: look at the graph.",
            "Otherwise look at the follower's disk (*Flushes*) and processor, and at `replica.fetch.max.bytes` and the "
            "replication throttles.",
        ),
    ),
    "HeadraceUncleanElection": (
        "A partition without any in-sync replica was given to another replica. What that one lacked is gone.",
        (
            "`headrace cluster status` shows the last one's partition and time; the brokers' logs have all of them.",
            "Find out which records are missing by what producers have of them, and send them again.",
            "Set `unclean.leader.election.enable=false` again if somebody had allowed it. The alert clears an hour after "
            "the election.",
        ),
    ),
    "HeadracePartitionsOffline": (
        "The disk failed under a replica. It is not trusted again before a restart; other replicas lead meanwhile.",
        (
            "Look at the broker's log for the file and the error, and at `dmesg` and SMART for the disk.",
            "Mend or replace the disk, then restart the broker. With an empty directory it copies everything again.",
        ),
    ),
    "HeadraceFlushesSlow": (
        "Every hundredth fdatasync takes longer than half a second. Producers that wait for the disk wait that long.",
        (
            "See who else uses the disk (`iostat -x`), and whether a RAID is rebuilt or a cloud disk has used up its credits.",
            "Move leaders away until it is better: `headrace cluster drain`.",
            "Where replication is durability enough, `headrace.flush=interval` takes the disk out of the way of producers.",
        ),
    ),
    "HeadraceDiskFills": (
        "At the pace of the last six hours the disk is full within a day. Then writes are refused; reading goes on.",
        (
            "Find what grows: *Size* on the dashboard of topics, or `headrace topic list`.",
            "Shorten its `retention.ms` or `retention.bytes`; room is freed within minutes. Or move partitions to other brokers, "
            "or enlarge the disk.",
            "`headrace quota set topic=NAME storage_bytes=…` keeps one topic from taking all.",
        ),
    ),
    "HeadraceDiskAlmostFull": (
        "Less than a tenth of the disk may still be written. With nothing left, producers are refused until room is made.",
        ("Do at once what HeadraceDiskFills says: shorten the retention of the largest topic first, ask questions later.",),
    ),
    "HeadraceProducersFail": (
        "More than one batch of a thousand is refused or not confirmed. Errors that clients mend by asking who leads are "
        "not counted.",
        (
            "See which error it is: `sum by (error) (rate(headrace_append_failures_total[5m]))`.",
            "NOT_ENOUGH_REPLICAS: see HeadraceUnderMinimumInSync. REQUEST_TIMED_OUT: see HeadraceReplicationLags. "
            "KAFKA_STORAGE_ERROR: "
            "the disk. TOPIC_AUTHORIZATION_FAILED: somebody lacks a right, `headrace audit` says who. "
            "MESSAGE_TOO_LARGE: a producer's batches exceed `max.message.bytes`.",
            "Producers retry most of them until `delivery.timeout.ms`; after that, records are lost unless the program "
            "keeps them.",
        ),
    ),
    "HeadraceConsumerLagRecords": (
        "A group has not committed more than 100,000 records of a topic.",
        (
            "`headrace group describe GROUP` shows its members and where the lag is. No members: start them.",
            "Lag in all partitions: too slow or too few; add members, up to the number of partitions. In one: a record that is "
            "tried again and again, or uneven keys.",
            "A group that nobody uses any more: `headrace group delete GROUP`.",
        ),
    ),
    "HeadraceConsumerLagSeconds": (
        "The first record that a group has not committed is older than a minute. Records with times of their producers' "
        "making count "
        "by those.",
        ("As for HeadraceConsumerLagRecords: `headrace group describe GROUP` first.",),
    ),
    "HeadraceDeadLettersGrow": (
        "Handlers failed on records, and set them aside as dead letters. After the first start of Prometheus those that "
        "were there before count once.",
        (
            "`headrace dead-letter list` and `headrace dead-letter list TOPIC` tell which, and with which error.",
            "Mend the handler, then send them back: `headrace dead-letter redrive TOPIC`.",
        ),
    ),
    "HeadraceQueueRecordsGivenUp": (
        "Consumers of a share group rejected records, or took them as often as `group.share.delivery.count.limit` allows without "
        "accepting them. The group goes on without them; with a dead-letter topic they are there.",
        (
            "`headrace group describe GROUP` shows how far it is; the consumers' own logs, why they reject.",
            "`headrace dead-letter list` shows what was kept of them. Mend the consumers, then "
            "`headrace dead-letter redrive TOPIC`.",
            "Records that die of time-outs: raise the group's `share.record.lock.duration.ms`, or have consumers renew locks.",
        ),
    ),
    "HeadraceQueueBehind": (
        "The first record that a share group has not done was written more than five minutes ago: nobody works, too few do, or "
        "one record is delivered again and again.",
        (
            "`headrace group describe GROUP`: no members, start some; all of them busy "
            "(`headrace_share_group_in_flight_records`), add more. Unlike other groups a share group may have more members than "
            "the topic has partitions.",
            "Nothing in flight and nothing done: look at the consumers' logs, and at HeadracePartitionsLeaderless.",
            "A group that nobody uses any more: `headrace group delete GROUP`.",
        ),
    ),
    "HeadraceDelayedRecordsLate": (
        "Delayed records are due and wait all the same: the topic that they go to cannot be written to, or the broker that "
        "holds them is overloaded. None is lost; they are tried again until they are delivered.",
        (
            "`headrace_delayed_records_by_topic` names the topics. See whether they have leaders and enough replicas in sync: "
            "`headrace topic describe TOPIC`, HeadracePartitionsLeaderless, HeadraceUnderMinimumInSync.",
            "If they have, look at the log of the broker that holds the records, and at HeadraceEventLoopLate.",
        ),
    ),
    "HeadraceUploadsBehind": (
        "Closed segments of tiered topics could not be uploaded, or not fast enough. Nothing is lost: they stay on the disk "
        "until they are in the store, and fill it meanwhile.",
        (
            "`headrace_remote_failures_total` that grows: the store does not answer, or refuses. The broker's log says why; look "
            "at credentials, the bucket, the network.",
            "If it does not grow, more is written than is uploaded: raise `headrace.remote.upload.bytes.per.second`, or give the "
            "machine more of the network.",
            "See how long the disk lasts: HeadraceDiskFills.",
        ),
    ),
    "HeadracePipelineBehind": (
        "A query has more than 100,000 records to go. It is slower than its topics are written, or was stopped for a while.",
        (
            "`headrace pipeline status` shows its batches. Lag that falls needs only patience.",
            "Batch time grows: give Spark more cores, or the topic more partitions. State grows: shorten the watermark.",
        ),
    ),
}


def runbook_page() -> str:
    """All sections, in the order of the rules."""
    parts = [OPENING]
    for group, alerts in GROUPS.items():
        parts.append(f"## {TITLES[group]}\n")
        parts += [_section(alert) for alert in alerts]
    return "\n".join(parts)


def _section(alert: Alert) -> str:
    meaning, steps = TEXTS[alert.name]
    asked = f"```\n{alert.expression}\n```"
    lasting = "at once" if alert.lasting == "0s" else f"after {alert.lasting}"
    listed = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    return f"### {alert.name}\n\n*{alert.severity}, {lasting}.* {meaning}\n\n{asked}\n\n{listed}\n"
