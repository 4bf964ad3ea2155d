// Reads one partition from its beginning with one of Go's clients, and prints the keys it saw as a JSON list of hex strings.
//
// readers kafka-go|franz-go BOOTSTRAP TOPIC LAST-KEY
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

const wait = 30 * time.Second

func main() {
	client, bootstrap, topic, last := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var keys []string
	switch client {
	case "kafka-go":
		keys = withKafkaGo(ctx, bootstrap, topic)
	case "franz-go":
		keys = withFranzGo(ctx, bootstrap, topic, last)
	default:
		fail(fmt.Errorf("there is no client %s", client))
	}
	fail(json.NewEncoder(os.Stdout).Encode(keys))
}

// withKafkaGo reads until the offset before the end was seen: the reader loops for ever where it cannot step over a batch.
func withKafkaGo(ctx context.Context, bootstrap string, topic string) []string {
	connection, err := kafka.DialLeader(ctx, "tcp", bootstrap, topic, 0)
	fail(err)
	end, err := connection.ReadLastOffset()
	fail(err)
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, Partition: 0, MaxWait: 100 * time.Millisecond, IsolationLevel: kafka.ReadCommitted,
	})
	defer reader.Close()
	keys := []string{}
	for {
		message, err := reader.ReadMessage(ctx)
		fail(err)
		keys = append(keys, hex.EncodeToString(message.Key))
		if message.Offset >= end-1 {
			return keys
		}
	}
}

func withFranzGo(ctx context.Context, bootstrap string, topic string, last string) []string {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	fail(err)
	defer client.Close()
	keys := []string{}
	for len(keys) == 0 || keys[len(keys)-1] != hex.EncodeToString([]byte(last)) {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			fail(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { keys = append(keys, hex.EncodeToString(record.Key)) })
	}
	return keys
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
