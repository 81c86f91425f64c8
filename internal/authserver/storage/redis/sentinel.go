package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

// askSentinels returns the address of the master. All sentinels are asked at once: the first
// that knows the master is believed, and checkMaster notices when it was wrong (Redis,
// Guidelines for Redis clients with support for Redis Sentinel).
func (d *dialer) askSentinels(ctx context.Context) (addr string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		addr string
		err  error
	}
	answers := make(chan answer, len(d.sentinels))
	for _, sentinel := range d.sentinels {
		go func() {
			addr, err := d.askSentinel(ctx, sentinel)
			answers <- answer{addr, err}
		}()
	}
	var errs []error
	for range d.sentinels {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.addr, nil
			}
			errs = append(errs, a.err)
		case <-ctx.Done():
			return "", faultf("no sentinel answered in time: %w", ctx.Err())
		}
	}
	return "", faultf("no sentinel names the master: %w", errors.Join(errs...))
}

// askSentinel asks one sentinel, which needs no password.
func (d *dialer) askSentinel(ctx context.Context, sentinel string) (addr string, err error) {
	o := d.options(sentinel, d.dialSentinel)
	o.DialTimeout = d.dialTimeout
	o.CredentialsProviderContext, o.OnConnect, o.DB, o.PoolSize = nil, nil, 0, 1
	client := goredis.NewSentinelClient(o)
	defer client.Close()
	found, err := client.GetMasterAddrByName(ctx, d.master).Result()
	switch {
	case errors.Is(err, goredis.Nil):
		return "", fmt.Errorf("%s knows no master %.100q", sentinel, d.master)
	case err != nil:
		return "", fmt.Errorf("%s: %w", sentinel, cause(err))
	case len(found) != 2:
		return "", fmt.Errorf("%s: %w", sentinel, errUnexpected)
	}
	if port, err := strconv.ParseUint(found[1], 10, 16); err != nil || port == 0 || found[0] == "" {
		return "", fmt.Errorf("%s: %w", sentinel, errUnexpected)
	}
	return net.JoinHostPort(found[0], found[1]), nil
}

// checkMaster fails if the server of a new connection is not the master: a sentinel that was
// cut off from the others does not notice a failover. A user that may not execute ROLE gets
// no such check.
func checkMaster(ctx context.Context, conn *goredis.Conn) error {
	role, err := conn.Do(ctx, "ROLE").Slice()
	var refused goredis.Error
	switch {
	case errors.As(err, &refused):
		return nil
	case err != nil:
		return err
	case len(role) == 0 || role[0] != "master":
		return faultf("the server that the sentinels named is not the master")
	}
	return nil
}
