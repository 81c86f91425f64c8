package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// Defaults of the timeouts (specification, limits).
const (
	defaultDialTimeout = 5 * time.Second
	defaultTimeout     = 3 * time.Second
	sentinelPort       = 26379
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer makes connections.
type dialer struct {
	addr      string // of the server or of a node of the cluster; "" with sentinels
	cluster   bool
	sentinels []string // addresses; nil without sentinels
	master    string   // the name that the sentinels have for it
	db        int

	user          *externalauth.SecretRef // nil: only the password is sent
	password      externalauth.SecretRef
	tls           *externalauth.RedisTLS // nil: no TLS
	sentinelTLS   *externalauth.RedisTLS
	secret        func(externalauth.SecretRef) (string, error)
	dialTimeout   time.Duration
	readTimeout   time.Duration
	writeTimeout  time.Duration
	connectSocket dialFunc
}

func newDialer(c Config) (*dialer, error) {
	r := c.Redis
	d := &dialer{addr: r.Addr, cluster: r.ClusterMode, tls: r.TLS, sentinelTLS: r.SentinelTLS, secret: c.Secret}
	if c.Secret == nil {
		return nil, errors.New("there is no source of secrets")
	}
	if (r.Addr == "") == (r.SentinelConfig == nil) {
		return nil, errors.New("one of addr and sentinelConfig is required")
	}
	if s := r.SentinelConfig; s != nil {
		if r.ClusterMode {
			return nil, errors.New("clusterMode needs addr")
		}
		d.master, d.db, d.sentinels = s.MasterName, int(s.DB), s.Addrs
		if s.Service != nil {
			d.sentinels = []string{serviceAddr(s.Service)}
		}
		if len(d.sentinels) == 0 {
			return nil, errors.New("there are no sentinels")
		}
		d.addr = d.master // for the library, which does not connect to it
	}
	if r.ACLUserConfig == nil || r.ACLUserConfig.PasswordSecretRef == nil {
		return nil, errors.New("a password is required")
	}
	d.user, d.password = r.ACLUserConfig.UsernameSecretRef, *r.ACLUserConfig.PasswordSecretRef
	var errs [3]error
	d.dialTimeout, errs[0] = duration("dialTimeout", r.DialTimeout, defaultDialTimeout)
	d.readTimeout, errs[1] = duration("readTimeout", r.ReadTimeout, defaultTimeout)
	d.writeTimeout, errs[2] = duration("writeTimeout", r.WriteTimeout, defaultTimeout)
	d.connectSocket = (&net.Dialer{Timeout: d.dialTimeout}).DialContext
	return d, errors.Join(errs[:]...)
}

func duration(field, text string, missing time.Duration) (time.Duration, error) {
	if text == "" {
		return missing, nil
	}
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return 0, fmt.Errorf("%s: %.50q is not a positive duration", field, text)
	}
	return v, nil
}

// serviceAddr is the address of a Kubernetes Service. A name without a namespace is one of
// the pod's own namespace (Kubernetes, DNS for Services and Pods).
func serviceAddr(s *externalauth.SentinelService) string {
	host, port := s.Name, int64(sentinelPort)
	if s.Namespace != "" {
		host += "." + s.Namespace + ".svc"
	}
	if s.Port != nil {
		port = int64(*s.Port)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

// connectTimeout bounds what dial does.
func (d *dialer) connectTimeout() time.Duration {
	if d.sentinels == nil {
		return d.dialTimeout
	}
	return 2*d.dialTimeout + d.readTimeout + d.writeTimeout // first a sentinel, then the master
}

// dial connects to a server of Redis: with sentinels to the one that is the master now.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.sentinels != nil {
		var err error
		if addr, err = d.askSentinels(ctx); err != nil {
			return nil, err
		}
	}
	return d.connect(ctx, network, addr, d.tls)
}

// dialSentinel connects to a sentinel.
func (d *dialer) dialSentinel(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.connect(ctx, network, addr, d.sentinelTLS)
}

func (d *dialer) connect(ctx context.Context, network, addr string, over *externalauth.RedisTLS) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dialTimeout)
	defer cancel()
	var config *tls.Config
	if over != nil {
		var err error
		if config, err = d.tlsConfig(over, addr); err != nil {
			return nil, err
		}
	}
	conn, err := d.connectSocket(ctx, network, addr)
	if err != nil || over == nil {
		return conn, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &net.OpError{Op: "TLS handshake", Net: network, Addr: conn.RemoteAddr(), Err: err}
	}
	return secure, nil
}

func (d *dialer) tlsConfig(t *externalauth.RedisTLS, addr string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, faultf("its address is not host:port")
	}
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CACertSecretRef == nil {
		return c, nil
	}
	pem, err := d.secret(*t.CACertSecretRef)
	if err != nil {
		return nil, faultf("read its CA certificate: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM([]byte(pem)) {
		return nil, faultf("the secret %s/%s has no CA certificate in PEM", t.CACertSecretRef.Name, t.CACertSecretRef.Key)
	}
	return c, nil
}

// credentials reads user and password. An empty password is a fault: the library would
// send none.
func (d *dialer) credentials(context.Context) (user, password string, err error) {
	if d.user != nil {
		if user, err = d.secret(*d.user); err != nil {
			return "", "", faultf("read its user name: %w", err)
		}
		if user == "" {
			return "", "", faultf("the secret %s/%s, its user name, is empty", d.user.Name, d.user.Key)
		}
	}
	if password, err = d.secret(d.password); err != nil {
		return "", "", faultf("read its password: %w", err)
	}
	if password == "" {
		return "", "", faultf("the secret %s/%s, its password, is empty", d.password.Name, d.password.Key)
	}
	return user, password, nil
}
