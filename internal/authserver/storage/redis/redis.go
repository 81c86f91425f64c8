// Package redis keeps what the authorization server stores in Redis, so that several
// processes share it: one server, a cluster, or a master that sentinels know.
//
// It needs Redis 6.2 (GETDEL). Its user needs the commands GET, SET, GETDEL, DEL, EVAL and
// PING on the keys with the prefix. Also used, and done without where refused: INFO, ROLE.
// A cluster needs CLUSTER SLOTS, a database other than 0 SELECT.
//
// No operation that changes something is sent twice: when its answer is lost, the operation
// fails. Otherwise a Take could remove a value and then return ErrNotFound.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/seal"
)

const (
	// A connection is replaced after about this time. The next one has the secrets and the
	// addresses of its time.
	maxAge, maxAgeJitter = 10 * time.Minute, time.Minute
	// releaseTimeout bounds the release of a lease, which its holder waits for.
	releaseTimeout = 5 * time.Second
)

// Config is how Redis is reached.
type Config struct {
	// Redis is a validated description (package externalauth).
	Redis externalauth.Redis
	// Secret returns the content of a secret. It is called for each connection, so that a
	// replaced password is used without a restart.
	Secret func(externalauth.SecretRef) (string, error)
	// Prefix begins every key. It separates what several servers keep in one Redis, and has
	// none of the braces that assign keys to one node of a cluster.
	Prefix string
}

// Store is a [storage.Store].
type Store struct {
	client goredis.UniversalClient
	prefix string

	closing sync.Once
	closed  error
}

var _ storage.Store = (*Store)(nil)

// New returns a store. It makes no connection; an error is a fault of the configuration.
func New(c Config) (*Store, error) {
	d, err := newDialer(c)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		return nil, errors.New("redis: the prefix of keys has braces")
	}
	// The library would write to standard error what its callers receive as errors.
	silence.Do(logging.Disable)
	return &Store{client: d.client(), prefix: c.Prefix}, nil
}

var silence sync.Once

// client returns the library's client. It connects when it is used.
func (d *dialer) client() goredis.UniversalClient {
	if d.cluster {
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs:                      []string{d.addr},
			Dialer:                     d.dial,
			CredentialsProviderContext: d.credentials,
			Protocol:                   2,
			DialTimeout:                d.connectTimeout(),
			DialerRetries:              1,
			ReadTimeout:                d.readTimeout,
			WriteTimeout:               d.writeTimeout,
			ContextTimeoutEnabled:      true,
			ConnMaxLifetime:            maxAge,
			ConnMaxLifetimeJitter:      maxAgeJitter,
			DisableIdentity:            true,
			DisableRoutingPolicies:     true,
			MaintNotificationsConfig:   noNotifications(),
		})
	}
	return goredis.NewClient(d.options(d.addr, d.dial))
}

// options are those of a client of one server.
func (d *dialer) options(addr string, dial dialFunc) *goredis.Options {
	o := &goredis.Options{
		Addr:                       addr,
		Dialer:                     dial,
		CredentialsProviderContext: d.credentials,
		DB:                         d.db,
		Protocol:                   2,
		MaxRetries:                 -1,
		DialTimeout:                d.connectTimeout(),
		DialerRetries:              1,
		ReadTimeout:                d.readTimeout,
		WriteTimeout:               d.writeTimeout,
		ContextTimeoutEnabled:      true,
		ConnMaxLifetime:            maxAge,
		ConnMaxLifetimeJitter:      maxAgeJitter,
		DisableIdentity:            true,
		MaintNotificationsConfig:   noNotifications(),
	}
	if d.sentinels != nil {
		o.OnConnect = checkMaster
	}
	return o
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return bytesOf(s.do(ctx, goredis.NewCmd(ctx, "GET", s.value(key))))
}

// Put implements [storage.Store].
func (s *Store) Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	ms, err := milliseconds(lifetime)
	if err != nil {
		return err
	}
	_, err = s.once(ctx, "SET", s.value(key), value, "PX", ms)
	return err
}

// swapScript replaces the value ARGV[1] by ARGV[2] for ARGV[3] milliseconds.
const swapScript = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// Swap implements [storage.Store].
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, lifetime time.Duration) error {
	ms, err := milliseconds(lifetime)
	if err != nil {
		return err
	}
	if old == nil {
		_, err := s.once(ctx, "SET", s.value(key), value, "PX", ms, "NX")
		if errors.Is(err, storage.ErrNotFound) { // nil: the condition NX is not met
			return storage.ErrChanged
		}
		return err
	}
	done, err := s.once(ctx, "EVAL", swapScript, 1, s.value(key), old, value, ms)
	if err != nil {
		return err
	}
	if done != int64(1) {
		return storage.ErrChanged
	}
	return nil
}

// Take implements [storage.Store].
func (s *Store) Take(ctx context.Context, key string) ([]byte, error) {
	return bytesOf(s.once(ctx, "GETDEL", s.value(key)))
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.once(ctx, "DEL", s.value(key))
	return err
}

// releaseScript removes a lease of the holder ARGV[1].
const releaseScript = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

// Lease implements [storage.Store].
func (s *Store) Lease(ctx context.Context, key string, lifetime time.Duration) (release func(), err error) {
	ms, err := milliseconds(lifetime)
	if err != nil {
		return nil, err
	}
	holder := seal.NewKey() // random, so that no other process has the same
	_, err = s.once(ctx, "SET", s.lease(key), holder, "PX", ms, "NX")
	switch {
	case errors.Is(err, storage.ErrNotFound): // nil: the condition NX is not met
		return nil, storage.ErrHeld
	case err != nil:
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		// If it fails, the lease ends with its lifetime.
		_, _ = s.once(ctx, "EVAL", releaseScript, 1, s.lease(key), holder)
	}, nil
}

// Ping implements [storage.Store]. Each master of a cluster must answer.
func (s *Store) Ping(ctx context.Context) error {
	return s.each(ctx, func(ctx context.Context, c goredis.UniversalClient) error {
		return c.Ping(ctx).Err()
	})
}

// each calls f with the server, or with each master of a cluster.
func (s *Store) each(ctx context.Context, f func(context.Context, goredis.UniversalClient) error) error {
	if err := ctx.Err(); err != nil {
		return unreachable(ctx, err)
	}
	cluster, ok := s.client.(*goredis.ClusterClient)
	if !ok {
		return unreachable(ctx, f(ctx, s.client))
	}
	return unreachable(ctx, cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error {
		return f(ctx, c)
	}))
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.closing.Do(func() { s.closed = s.client.Close() })
	return s.closed
}

// value and lease are the keys of a value and of a lease. Both may have the same name.
func (s *Store) value(key string) string { return s.prefix + "v:" + key }
func (s *Store) lease(key string) string { return s.prefix + "l:" + key }

// onceCmd is a command that the library must not send again after an error.
type onceCmd struct{ *goredis.Cmd }

// NoRetry implements [goredis.Cmder].
func (onceCmd) NoRetry() bool { return true }

// once executes a command that changes something.
func (s *Store) once(ctx context.Context, args ...any) (any, error) {
	return s.do(ctx, onceCmd{goredis.NewCmd(ctx, args...)})
}

// do executes a command. The answer nil is ErrNotFound.
func (s *Store) do(ctx context.Context, cmd interface {
	goredis.Cmder
	Val() any
}) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, unreachable(ctx, err)
	}
	if err := s.client.Process(ctx, cmd); err != nil {
		return nil, unreachable(ctx, err)
	}
	return cmd.Val(), nil
}

// bytesOf is the answer as bytes.
func bytesOf(answer any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, ok := answer.(string)
	if !ok {
		return nil, errUnexpected
	}
	return []byte(text), nil
}

// milliseconds is a lifetime as PX has it, rounded up.
func milliseconds(lifetime time.Duration) (int64, error) {
	if lifetime <= 0 {
		return 0, errors.New("a lifetime must be positive")
	}
	ms := lifetime.Milliseconds()
	if time.Duration(ms)*time.Millisecond < lifetime {
		ms++
	}
	return ms, nil
}
