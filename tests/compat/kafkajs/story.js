// What kafkajs does with a broker, one story per run: node story.js BOOTSTRAP TOPIC STORY [CODEC].
// Reads a JSON input from standard input where the story wants one and prints its result as one line of JSON.
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const lz4 = require('lz4-napi')
const SnappyCodec = require('kafkajs-snappy')
const { ZstdCodec } = require('zstd-codec')
const fs = require('fs')

const [bootstrap, topic, story, codec = 'none'] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 3 } })

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer),
})
const zstd = new Promise(resolve => ZstdCodec.run(module => resolve(new module.Streaming())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd).decompress(buffer)),
})

const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const bytes = text => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const text = buffer => (buffer === null || buffer === undefined ? null : buffer.toString('base64'))

async function withAdmin(use) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

const create = (numPartitions, settings = {}) =>
  withAdmin(admin =>
    admin.createTopics({
      waitForLeaders: true,
      topics: [{
        topic,
        numPartitions,
        replicationFactor: 1,
        configEntries: Object.entries(settings).map(([name, value]) => ({ name, value })),
      }],
    })
  )

async function produce(messages, compression = CompressionTypes.None) {
  const producer = kafka.producer()
  await producer.connect()
  try {
    return await producer.send({ topic, messages, compression })
  } finally {
    await producer.disconnect()
  }
}

async function consume(count, offset) {
  const consumer = kafka.consumer({ groupId: `group-${topic}`, maxBytesPerPartition: 1000 })
  const got = []
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    consumer
      .run({
        eachMessage: async ({ message }) => {
          got.push(message)
          if (got.length === count) resolve()
        },
      })
      .then(() => offset === undefined || consumer.seek({ topic, partition: 0, offset }))
      .catch(reject)
  })
  await consumer.disconnect()
  return got
}

function headersOf(message) {
  return Object.entries(message.headers || {}).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map(text) : [text(value)],
  ])
}

const stories = {
  async roundTrip() {
    const input = JSON.parse(fs.readFileSync(0, 'utf8'))
    await create(1, { 'max.message.bytes': String(input.largestBytes) })
    const messages = input.records.map(({ key, value, headers }) => ({
      partition: 0,
      key: bytes(key),
      value: bytes(value),
      headers: Object.fromEntries(headers.map(([name, values]) => [name, values.length === 1 ? bytes(values[0]) : values.map(bytes)])),
    }))
    const [reply] = await produce(messages, codecs[codec])
    const got = await consume(messages.length)
    return {
      baseOffset: reply.baseOffset,
      records: got.map(message => ({ key: text(message.key), value: text(message.value), headers: headersOf(message) })),
    }
  },

  async seekByTime() {
    const { times } = JSON.parse(fs.readFileSync(0, 'utf8'))
    await create(1)
    for (const timestamp of times) await produce([{ partition: 0, value: String(timestamp), timestamp: String(timestamp) }])
    const [found] = await withAdmin(admin => admin.fetchTopicOffsetsByTimestamp(topic, times[1] + 1))
    const got = await consume(times.length - 2, found.offset)
    return { offset: found.offset, values: got.map(message => message.value.toString()) }
  },

  async administer() {
    await create(2, { 'retention.ms': '3600000' })
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    return withAdmin(async admin => {
      const settings = async () => {
        const reply = await admin.describeConfigs({ resources: [resource], includeSynonyms: false })
        return Object.fromEntries(reply.resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
      }
      const before = await settings()
      await admin.alterConfigs({
        validateOnly: false,
        resources: [{ ...resource, configEntries: [{ name: 'max.message.bytes', value: '5000' }] }],
      })
      await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
      const after = await settings()
      const metadata = await admin.fetchTopicMetadata({ topics: [topic] })
      const messages = Array.from({ length: 10 }, (_, number) => ({ partition: 0, value: String(number) }))
      await produce(messages)
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '6' }] })
      const [offsets] = (await admin.fetchTopicOffsets(topic)).filter(each => each.partition === 0)
      await admin.deleteTopics({ topics: [topic] })
      return {
        retention: before['retention.ms'],
        largest: after['max.message.bytes'],
        partitions: metadata.topics[0].partitions.length,
        low: offsets.low,
        high: offsets.high,
        listed: (await admin.listTopics()).includes(topic),
      }
    })
  },
}

stories[story]().then(
  result => process.stdout.write(JSON.stringify(result) + '\n', () => process.exit(0)),
  error => {
    console.error(error)
    process.exit(1)
  }
)
