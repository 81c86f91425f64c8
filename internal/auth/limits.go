package auth

import "time"

// The bounds of this package. All data of callers and identity providers is hostile
// and bounded.
const (
	// maxToken bounds an access token. A header block is at most 32 KiB.
	maxToken = 16 << 10
	// maxResponse bounds a provider's response, after decompression.
	maxResponse = 1 << 20
	// maxReasons bounds the reasons in the log line of a refusal, maxReason the
	// characters of each, maxValue the characters of a claim's value in it.
	maxReasons, maxReason, maxValue = 5, 600, 200
	// maxKeys bounds a key set; more is an error.
	maxKeys = 100
	// maxTries bounds the signature checks of one token, which may have no key id, or
	// that of several keys.
	maxTries = 8
	// minRSABits is RFC 7518 section 3.3; maxRSABits bounds the cost of a check with
	// a hostile key.
	minRSABits, maxRSABits = 2048, 8192

	// requestTimeout bounds one request to a provider, with its response.
	requestTimeout = 10 * time.Second
	// decideTimeout bounds the decision on one token that needs providers: keys,
	// then introspection.
	decideTimeout = 20 * time.Second
	// patience is how long one provider may take before the next candidate is
	// consulted too. A provider that was slow last time gets none.
	patience = 150 * time.Millisecond

	// keysFresh is the interval of background fetches.
	keysFresh = 5 * time.Minute
	// keysStale is how long keys are used while the provider is unreachable. After
	// that its tokens are rejected.
	keysStale = 24 * time.Hour
	// keysWait bounds how long one token waits for missing keys.
	keysWait = 5 * time.Second
	// keysRetry is the least time between fetches while no keys are held. In the
	// background the pause doubles up to keysRetryMax.
	keysRetry, keysRetryMax = time.Second, time.Minute
	// unknownKidEvery and unknownKidBurst are the interval and the burst of fetches
	// for key ids that are not in the set.
	unknownKidEvery, unknownKidBurst = 5 * time.Second, 3
	// unknownKidAgain is the least time between two fetches for one such id;
	// unknownKids bounds the remembered ids.
	unknownKidAgain, unknownKids = 30 * time.Second, 256
	// badSignatureEvery is the least age of keys that are fetched again because of a
	// wrong signature: a provider may replace a key and keep its id.
	badSignatureEvery = time.Minute
	// discoveryFresh is how long a discovered jwks_uri is used, unless fetching the
	// keys from it fails.
	discoveryFresh = time.Hour

	// maxAsking bounds the concurrent introspections at one provider, maxWaiting those
	// that wait for a place.
	maxAsking, maxWaiting = 64, 256

	// cacheFor bounds how long an acceptance is cached, within the token's lifetime;
	// cacheSize bounds their number.
	cacheFor, cacheSize = 60 * time.Second, 20_000
	// refusalFor is how long a rejection is cached, for clients that repeat a request
	// at once; refusals bounds their number.
	refusalFor, refusals = time.Second, 1_000
)
