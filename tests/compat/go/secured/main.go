// Signs in with franz-go, sends values and reads them as a group: settings come as JSON on standard input, what was read goes to
// standard output as a JSON list.  Ends with 1 and the reason where it is refused.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const wait = 20 * time.Second

type settings struct {
	Bootstrap, Topic, Authority, Certificate, Mechanism, User, Password, Token string
	Values                                                                     []string
}

func main() {
	var given settings
	fail(json.NewDecoder(os.Stdin).Decode(&given))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(given.Bootstrap), kgo.AllowAutoTopicCreation(), kgo.RecordRetries(3), kgo.RequestRetries(3)}
	if given.Authority != "" {
		options = append(options, kgo.DialTLSConfig(trust(given)))
	}
	if mechanism := mechanism(given); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	write(ctx, given, options)
	fail(json.NewEncoder(os.Stdout).Encode(read(ctx, given, options)))
}

func trust(given settings) *tls.Config {
	authority, err := os.ReadFile(given.Authority)
	fail(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if given.Certificate != "" {
		certificate, err := tls.LoadX509KeyPair(given.Certificate, given.Certificate)
		fail(err)
		config.Certificates = []tls.Certificate{certificate}
	}
	return config
}

func mechanism(given settings) sasl.Mechanism {
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given.Token}.AsMechanism()
	}
	return nil
}

func write(ctx context.Context, given settings, options []kgo.Opt) {
	client, err := kgo.NewClient(options...)
	fail(err)
	defer client.Close()
	fail(client.Ping(ctx))
	for _, value := range given.Values {
		fail(client.ProduceSync(ctx, &kgo.Record{Topic: given.Topic, Value: []byte(value)}).FirstErr())
	}
}

func read(ctx context.Context, given settings, options []kgo.Opt) []string {
	group := []kgo.Opt{kgo.ConsumerGroup(given.Topic), kgo.ConsumeTopics(given.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	client, err := kgo.NewClient(append(options, group...)...)
	fail(err)
	defer client.Close()
	values := []string{}
	for len(values) < len(given.Values) {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			fail(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
