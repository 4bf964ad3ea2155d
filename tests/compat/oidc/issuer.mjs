// An OpenID provider: node issuer.mjs PORT PEM CLIENT SECRET AUDIENCE, with the folder of its packages as PACKAGES.
// Prints "> serves" when it does; a line on standard input makes it sign with another key from then on, and it says so.
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createInterface } from 'node:readline'

const { Provider } = await import(`${process.env.PACKAGES}/oidc-provider/lib/index.js`)
const [port, pem, client, secret, audience] = process.argv.slice(2)

function provider(number) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const key = { ...privateKey.export({ format: 'jwk' }), kid: `key-${number}`, use: 'sig', alg: 'RS256' }
  return new Provider(`https://127.0.0.1:${port}`, {
    clients: [{ client_id: client, client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
    jwks: { keys: [key] },
    scopes: ['kafka'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:headrace:brokers',
        getResourceServerInfo: () => ({ scope: 'kafka', audience, accessTokenFormat: 'jwt', accessTokenTTL: 600, jwt: { sign: { alg: 'RS256' } } }),
      },
    },
  })
}

let number = 1
let answer = provider(number).callback()
const server = createServer({ key: readFileSync(pem), cert: readFileSync(pem) }, (request, response) => answer(request, response))
server.listen(Number(port), '127.0.0.1', () => console.log('> serves'))
createInterface({ input: process.stdin }).on('line', () => {
  answer = provider(++number).callback()
  console.log(`> signs with key-${number}`)
}).on('close', () => process.exit(0))
