// The gateway, asked by packages of the Node world: `eventsource`, `ws` and Confluent's client of a schema registry.
const [url, topic, story] = process.argv.slice(2);

const stories = {
  // Reads until as many events came as are wanted; what ends the first connection must not cost or repeat an event.
  async events() {
    const { EventSource } = require("eventsource");
    const values = [];
    const read = (from, until) =>
      new Promise((resolve, reject) => {
        const source = new EventSource(`${url}/topics/${topic}/events?from=earliest`, {
          fetch: (input, init) =>
            fetch(input, { ...init, headers: { ...init.headers, ...(from ? { "Last-Event-ID": from } : {}) } }),
        });
        source.onmessage = (event) => {
          values.push(JSON.parse(event.data).value);
          if (values.length === until) {
            source.close();
            resolve(event.lastEventId);
          }
        };
        source.onerror = (error) => reject(new Error(error.message || "the connection failed"));
      });
    const last = await read(null, 2);
    await read(last, 4);
    return values;
  },

  // Writes and reads on one socket: no more records come than there are credits.
  async socket() {
    const WebSocket = require("ws");
    const socket = new WebSocket(`${url.replace("http", "ws")}/ws`);
    const values = [];
    const produced = [];
    return await new Promise((resolve, reject) => {
      const say = (message) => socket.send(JSON.stringify(message));
      socket.on("error", reject);
      socket.on("open", () => say({ type: "produce", id: "p", topic, records: [1, 2, 3].map((value) => ({ value })) }));
      socket.on("message", (raw) => {
        const message = JSON.parse(raw);
        if (message.type === "produced") {
          produced.push(...message.records.map((record) => record.offset));
          say({ type: "subscribe", id: "s", topic, begin: "earliest", credits: 2 });
        } else if (message.type === "records") {
          values.push(...message.records.map((record) => record.value));
          if (values.length === 2) setTimeout(() => say({ type: "credit", id: "s", credits: 5 }), 300);
          if (values.length >= 3) {
            socket.close();
            resolve({ produced, values });
          }
        } else if (message.type === "problem") {
          reject(new Error(raw.toString()));
        }
      });
    });
  },

  async registry() {
    const { SchemaRegistryClient, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer, SerdeType } =
      require("@confluentinc/schemaregistry");
    const client = new SchemaRegistryClient({ baseURLs: [url] });
    const subject = `${topic}-value`;
    const first = { type: "record", name: "Order", fields: [{ name: "id", type: "long" }] };
    const second = { ...first, fields: [...first.fields, { name: "note", type: ["null", "string"], default: null }] };
    const breaking = { ...first, fields: [{ name: "other", type: "long" }] };
    const id = await client.register(subject, { schema: JSON.stringify(first), schemaType: "AVRO" });
    const compatible = await client.testSubjectCompatibility(subject, { schema: JSON.stringify(second), schemaType: "AVRO" });
    const refused = await client.testSubjectCompatibility(subject, { schema: JSON.stringify(breaking), schemaType: "AVRO" });
    const next = await client.register(subject, { schema: JSON.stringify(second), schemaType: "AVRO" });
    const versions = await client.getAllVersions(subject);
    const latest = await client.getLatestSchemaMetadata(subject);
    const avro = new AvroSerializer(client, SerdeType.VALUE, { useLatestVersion: true });
    const bytes = await avro.serialize(topic, { id: 7, note: "soon" });
    const back = await new AvroDeserializer(client, SerdeType.VALUE, {}).deserialize(topic, bytes);
    const document = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
    await client.register(`${topic}-json-value`, { schema: JSON.stringify(document), schemaType: "JSON" });
    const json = new JsonSerializer(client, SerdeType.VALUE, { useLatestVersion: true, validate: true });
    const text = await json.serialize(`${topic}-json`, { id: 8 });
    const read = await new JsonDeserializer(client, SerdeType.VALUE, {}).deserialize(`${topic}-json`, text);
    const wrong = await json.serialize(`${topic}-json`, { id: "eight" }).then(() => false, () => true);
    const missing = await client.getLatestSchemaMetadata(`${topic}-nothing`).then(() => null, (error) => error.status ?? error.message);
    await client.deleteSubject(`${topic}-json-value`);
    return {
      ids: [id < next, versions],
      compatible: [compatible, refused],
      latest: [latest.id === next, latest.version],
      back,
      read,
      wrong,
      missing,
      bytes: bytes.toString("base64"),
    };
  },
};

stories[story]().then(
  (told) => {
    console.log(JSON.stringify(told));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
