// Works for a share group with franz-go, and prints what it saw as a JSON list of "value x delivery count".
//
// sharing BOOTSTRAP GROUP TOPIC COUNT: every record is released the first time that it comes, and then accepted, until so many
// are; one whose value is "bad" is rejected at once.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const wait = 40 * time.Second

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	fail(err)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	refused := make(chan error, 100)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ShareGroup(group),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				refused <- err
			}
		}),
	)
	fail(err)
	seen := []string{}
	for done := 0; done < count; {
		fetches := client.PollFetches(ctx)
		fail(fetches.Err0())
		fetches.EachRecord(func(record *kgo.Record) {
			seen = append(seen, fmt.Sprintf("%s x %d", record.Value, record.DeliveryCount()))
			switch {
			case string(record.Value) == "bad":
				record.Ack(kgo.AckReject)
				done++
			case record.DeliveryCount() == 1:
				record.Ack(kgo.AckRelease)
			default:
				record.Ack(kgo.AckAccept)
				done++
			}
		})
		fail(client.FlushAcks(ctx))
	}
	client.Close()
	select {
	case err := <-refused:
		fail(err)
	default:
	}
	fail(json.NewEncoder(os.Stdout).Encode(seen))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
