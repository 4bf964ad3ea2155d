// Uses a schema registry with franz-go's client, and prints what it saw as JSON.
//
// registry URL SUBJECT: registers two versions, compares, looks up, writes and reads a record's header, deletes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	first    = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`
	second   = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":""}]}`
	breaking = `{"type":"record","name":"Order","fields":[{"name":"other","type":"long"}]}`
)

type order struct {
	ID int `json:"id"`
}

func main() {
	url, subject := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	client, err := sr.NewClient(sr.URLs(url))
	fail(err)
	one, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: first, Type: sr.TypeAvro})
	fail(err)
	same, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: first, Type: sr.TypeAvro})
	fail(err)
	good, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: second, Type: sr.TypeAvro})
	fail(err)
	bad, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: breaking, Type: sr.TypeAvro})
	fail(err)
	two, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: second, Type: sr.TypeAvro})
	fail(err)
	_, refused := client.CreateSchema(ctx, subject, sr.Schema{Schema: breaking, Type: sr.TypeAvro})
	found, err := client.LookupSchema(ctx, subject, sr.Schema{Schema: first, Type: sr.TypeAvro})
	fail(err)
	byID, err := client.SchemaByID(ctx, two.ID)
	fail(err)
	versions, err := client.SubjectVersions(ctx, subject)
	fail(err)
	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, subject)
	fail(set[0].Err)
	level := client.Compatibility(ctx, subject)
	fail(level[0].Err)
	deleted, err := client.DeleteSubject(ctx, subject, sr.SoftDelete)
	fail(err)
	removed, err := client.DeleteSubject(ctx, subject, sr.HardDelete)
	fail(err)
	_, gone := client.SubjectVersions(ctx, subject)

	var serde sr.Serde
	serde.Register(two.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	encoded, err := serde.Encode(order{ID: 7})
	fail(err)
	var decoded order
	fail(serde.Decode(encoded, &decoded))

	told, err := json.Marshal(map[string]any{
		"ids":        []bool{one.ID == same.ID, one.ID < two.ID, found.ID == one.ID},
		"compatible": []bool{good.Is, bad.Is},
		"refused":    fmt.Sprint(refused),
		"second":     byID.Schema,
		"versions":   versions,
		"level":      level[0].Level.String(),
		"deleted":    [][]int{deleted, removed},
		"gone":       fmt.Sprint(gone),
		"decoded":    decoded.ID,
	})
	fail(err)
	fmt.Println(string(told))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
