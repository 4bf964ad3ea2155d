// kafkajs signed in: reads {brokers, ssl, sasl, topic, values} as JSON from standard input, sends the values and prints what it read
// as one line of JSON.  Where it is refused it prints {error, type}.
const { Kafka, logLevel } = require('kafkajs')
const fs = require('fs')

const input = JSON.parse(fs.readFileSync(0, 'utf8'))
const file = name => fs.readFileSync(name)
const ssl = input.ssl && {
  ca: file(input.ssl.authority),
  ...(input.ssl.certificate && { key: file(input.ssl.certificate), cert: file(input.ssl.certificate) }),
}
const sasl = input.sasl && input.sasl.token
  ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: input.sasl.token }) }
  : input.sasl
const kafka = new Kafka({ clientId: 'secured', brokers: input.brokers, ssl, sasl, logLevel: logLevel.NOTHING, retry: { retries: 2 } })

async function story() {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: input.topic, messages: input.values.map(value => ({ value })) })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: input.topic })
  const got = []
  await consumer.connect()
  await consumer.subscribe({ topic: input.topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    const eachMessage = async ({ message }) => {
      got.push(message.value.toString())
      if (got.length === input.values.length) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  return { values: got }
}

story()
  .catch(error => ({ error: error.message, type: (error.cause || error).type || (error.cause || error).name }))
  .then(result => process.stdout.write(JSON.stringify(result) + '\n', () => process.exit(0)))
