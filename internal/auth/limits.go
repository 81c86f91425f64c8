package auth

import "time"

// Every bound of this package, in one place. What comes from a caller or from an
// identity provider is hostile until proven otherwise, so all of it has one.
const (
	// maxToken bounds an access token. A header block is at most 32 KiB.
	maxToken = 16 << 10
	// maxResponse bounds a provider's answer, after decompression.
	maxResponse = 1 << 20
	// maxReasons bounds the reasons in the log line of a refusal, maxReason the
	// characters of each, maxValue the characters of a claim's value in it.
	maxReasons, maxReason, maxValue = 5, 600, 200
	// maxKeys bounds a key set; more is an error.
	maxKeys = 100
	// maxTries bounds the keys that one token without a key id, or with the id of
	// several keys, is tried with: each costs a signature check.
	maxTries = 8
	// minRSABits is RFC 7518 section 3.3; maxRSABits keeps a hostile key set from
	// making each check slow.
	minRSABits, maxRSABits = 2048, 8192

	// requestTimeout bounds one request to a provider, with its answer.
	requestTimeout = 10 * time.Second
	// decideTimeout bounds the decision on one token that needs providers: keys,
	// then introspection.
	decideTimeout = 20 * time.Second
	// patience is how long a provider is waited for before the next one that
	// might know the token is asked too. One that was slow lately gets none.
	patience = 150 * time.Millisecond

	// keysFresh: so often keys are fetched in the background.
	keysFresh = 5 * time.Minute
	// keysStale: so long keys are used while the provider cannot be reached;
	// after that its tokens are refused.
	keysStale = 24 * time.Hour
	// keysWait bounds how long one token waits for keys that are not at hand.
	keysWait = 5 * time.Second
	// keysRetry is the least time between fetches while no keys are at hand;
	// in the background the pause doubles up to keysRetryMax.
	keysRetry, keysRetryMax = time.Second, time.Minute
	// unknownKidEvery and unknownKidBurst bound the fetches for key ids that are
	// not in the set: the burst at once, then one each so often.
	unknownKidEvery, unknownKidBurst = 5 * time.Second, 3
	// unknownKidAgain is the least time between two fetches for one such id, and
	// unknownKids how many of them are remembered.
	unknownKidAgain, unknownKids = 30 * time.Second, 256
	// badSignatureEvery is the least age of keys that a signature which does not
	// fit them causes to be fetched again: a provider may have replaced a key and
	// kept its id.
	badSignatureEvery = time.Minute
	// discoveryFresh: so long a discovered jwks_uri is used without asking again,
	// unless the keys cannot be had from there.
	discoveryFresh = time.Hour

	// maxAsking bounds concurrent introspections at one provider, maxWaiting
	// those that wait for their turn: a slow provider cannot pile up work.
	maxAsking, maxWaiting = 64, 256

	// An acceptance is cached for at most cacheFor, and never beyond the token's
	// end; cacheSize bounds how many are.
	cacheFor, cacheSize = 60 * time.Second, 20_000
	// A provider's word that a token is not valid is remembered so briefly that
	// nobody notices but a client which repeats itself.
	refusalFor, refusals = time.Second, 1_000
)
