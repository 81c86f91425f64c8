package egress

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Addresses that are public, of names in the tests.
var (
	addrA     = netip.MustParseAddr("93.184.216.1")
	addrB     = netip.MustParseAddr("93.184.216.2")
	addrEvil  = netip.MustParseAddr("93.184.216.66")
	addrHost  = netip.MustParseAddr("172.31.255.1") // the engine's gateway
	addrInner = netip.MustParseAddr("10.9.8.7")
)

// zone is what the fake resolver has.
var zone = map[string][]netip.Addr{
	"a.example": {addrA}, "b.example": {addrB, netip.MustParseAddr("2606:2800:220:1::5")}, "below.c.example": {addrB},
	"evil.example": {addrEvil}, "rebound.example": {addrInner}, "own.example": {netip.MustParseAddr("127.0.0.1")},
	"metadata.example": {netip.MustParseAddr("169.254.169.254")}, "shared.example": {addrA},
}

// newGateway returns a Gateway whose dials, by address, reach the backend.
func newGateway(t *testing.T, cfg Config, backend map[netip.Addr]string) *Gateway {
	t.Helper()
	cfg.Gateway = addrHost
	g, err := New(cfg, &Log{})
	if err != nil {
		t.Fatal(err)
	}
	g.resolve = func(_ context.Context, name string) ([]netip.Addr, error) {
		if zone[name] == nil {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return append([]netip.Addr(nil), zone[name]...), nil
	}
	g.routed = func(netip.Addr) bool { return true }
	g.dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		address, there := backend[to.Addr()]
		if !there {
			return nil, errors.New("refused")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	return g
}

// ask sends a DNS question and returns the response.
func ask(t *testing.T, g *Gateway, name string, kind dnsmessage.Type) (dnsmessage.RCode, []netip.Addr) {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	if err := b.StartQuestions(); err != nil {
		t.Fatal(err)
	}
	if err := b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}); err != nil {
		t.Fatal(err)
	}
	query, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	message, err := g.answer(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(message); err != nil || m.ID != 7 || !m.Response || len(m.Questions) != 1 {
		t.Fatalf("%v, %+v", err, m)
	}
	var found []netip.Addr
	for _, a := range m.Answers {
		if a.Header.TTL != answerTTL {
			t.Errorf("a TTL of %d", a.Header.TTL)
		}
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			found = append(found, netip.AddrFrom4(body.A))
		case *dnsmessage.AAAAResource:
			found = append(found, netip.AddrFrom16(body.AAAA))
		}
	}
	return m.RCode, found
}

func TestConfig_Validate(t *testing.T) {
	for _, host := range []string{"a.example", "A.Example.", ".a.example", "*.a.example", "_svc.a.example", "localhost", "10.1.2.3", "2001:db8::1", "[2001:db8::1]", "10.0.0.0/8", "fd00::/48", "xn--bcher-kva.example"} {
		if err := (&Config{Hosts: []string{host}}).Validate(); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"", "*", ".", "*.", "a..b", "a.*.b", "*a.example", "a example", "a.example:443", "https://a.example", "a.example/x", "0.0.0.0/0", "::/0", "10.1.2.3/8", "127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "fe80::1%eth0", "1.2.3", "0x7f.1", "bücher.example", strings.Repeat("a.", 130) + "b", "::ffff:10.0.0.0/104"} {
		if err := (&Config{Hosts: []string{host}}).Validate(); err == nil {
			t.Errorf("%q was accepted", host)
		}
	}
	for _, port := range []int{0, -1, 65536} {
		if err := (&Config{Ports: []int{port}}).Validate(); err == nil {
			t.Errorf("port %d was accepted", port)
		}
	}
}

func TestRules_Names(t *testing.T) {
	for _, row := range []struct {
		hosts string
		all   bool
		name  string
		want  bool
	}{
		{"", false, "a.example", false}, // an empty list allows nothing
		{"a.example", false, "a.example", true},
		{"A.EXAMPLE", false, "a.example", true},
		{"a.example", false, "x.a.example", false},
		{"a.example", false, "evila.example", false},
		{".a.example", false, "a.example", true},
		{".a.example", false, "x.y.a.example", true},
		{"*.a.example", false, "a.example", false},
		{"*.a.example", false, "x.a.example", true},
		{"*.a.example", false, "xa.example", false},
		{"", true, "anything.example", true},
		{"", true, "host.docker.internal", false},
		{"host.docker.internal", true, "host.docker.internal", false},
		{"", true, "1.2.3.4", false},
	} {
		cfg := Config{AllowAll: row.all, Hosts: strings.Fields(row.hosts), Gateway: addrHost}
		r, err := cfg.parse()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.name(row.name); got != row.want {
			t.Errorf("%+v: %t", row, got)
		}
	}
}

func TestRules_Targets(t *testing.T) {
	own := machineAddress(t)
	for _, row := range []struct {
		what   string
		cfg    Config
		to     string
		named  bool
		listed bool
		err    error
	}{
		{"nothing is allowed", Config{}, "93.184.216.1:443", false, false, errAddress},
		{"an address of an allowed name", Config{}, "93.184.216.1:443", true, false, nil},
		{"not on this port", Config{Ports: []int{443}}, "93.184.216.1:80", true, false, errPort},
		{"a name that is a private address", Config{}, "10.9.8.7:443", true, false, errPrivate},
		{"a name that is the metadata address", Config{}, "169.254.169.254:80", true, false, errPrivate},
		{"a name that is loopback", Config{}, "127.0.0.1:80", true, false, errLoopback},
		{"a name that is the unspecified address", Config{}, "0.0.0.0:80", true, false, errLoopback},
		{"NAT64 of a private address (RFC 6052)", Config{}, "[64:ff9b::a00:1]:80", true, false, errPrivate},
		{"a unique local address", Config{}, "[fd00::1]:80", true, false, errPrivate},
		{"all, a public address", Config{AllowAll: true}, "93.184.216.1:443", false, true, nil},
		{"all, on these ports", Config{AllowAll: true, Ports: []int{443}}, "93.184.216.1:80", false, false, errPort},
		{"all, a private address", Config{AllowAll: true}, "10.9.8.7:443", false, false, errPrivate},
		{"all, the metadata address", Config{AllowAll: true}, "169.254.169.254:80", false, false, errPrivate},
		{"all, metadata over IPv6", Config{AllowAll: true}, "[fd00:ec2::254]:80", false, false, errPrivate},
		{"all, this machine", Config{AllowAll: true}, own + ":80", false, false, errMachine},
		{"this machine in a prefix", Config{Hosts: []string{prefixOf(t, own)}}, own + ":80", false, false, errMachine},
		{"this machine, named", Config{Hosts: []string{own}}, own + ":80", false, true, nil},
		{"a private address, named", Config{Hosts: []string{"10.9.8.7"}}, "10.9.8.7:5432", false, true, nil},
		{"a private prefix, named", Config{Hosts: []string{"10.0.0.0/8"}}, "10.9.8.7:5432", false, true, nil},
		{"a link-local prefix, named", Config{Hosts: []string{"169.254.0.0/16"}}, "169.254.169.254:80", false, false, errPrivate},
		{"the metadata address, named", Config{Hosts: []string{"169.254.169.254"}}, "169.254.169.254:80", false, true, nil},
		{"the gateway", Config{AllowAll: true}, "172.31.255.1:80", false, false, errGateway},
		{"the gateway, named", Config{Hosts: []string{"172.31.255.1"}}, "172.31.255.1:80", false, false, errGateway},
		{"the gateway, allowed", Config{AllowGateway: true}, "172.31.255.1:80", false, true, nil},
		{"the gateway, allowed on every port", Config{AllowGateway: true, Ports: []int{443}}, "172.31.255.1:80", false, true, nil},
		{"the gateway's other address, allowed", Config{AllowGateway: true, GatewayAlias: addrInner}, "10.9.8.7:80", false, true, nil},
		{"the gateway's other address", Config{GatewayAlias: addrInner}, "10.9.8.7:80", true, false, errPrivate},
		{"another address with the gateway", Config{AllowGateway: true}, "172.31.255.2:80", false, false, errAddress},
	} {
		row.cfg.Gateway = addrHost
		r, err := row.cfg.parse()
		if err != nil {
			t.Fatal(err)
		}
		listed, err := r.target(netip.MustParseAddrPort(row.to), row.named)
		if listed != row.listed || !errors.Is(err, row.err) {
			t.Errorf("%s: %t, %v", row.what, listed, err)
		}
	}
}

// machineAddress is an IPv4 address of this machine that is not loopback.
func machineAddress(t *testing.T) string {
	t.Helper()
	found, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range found {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr().String()
		}
	}
	t.Skip("this machine has no address")
	return ""
}

func prefixOf(t *testing.T, addr string) string {
	t.Helper()
	return netip.PrefixFrom(netip.MustParseAddr(addr), 24).Masked().String()
}

func TestDNS(t *testing.T) {
	g := newGateway(t, Config{Hosts: []string{"a.example", "b.example", "*.c.example", "rebound.example", "own.example", "metadata.example", "gone.example"}}, nil)
	for _, row := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want string
	}{
		{"a.example.", dnsmessage.TypeA, 0, "93.184.216.1"},
		{"A.eXample.", dnsmessage.TypeA, 0, "93.184.216.1"}, // RFC 4343
		{"a.example.", dnsmessage.TypeAAAA, 0, ""},
		{"b.example.", dnsmessage.TypeA, 0, "93.184.216.2"},
		{"b.example.", dnsmessage.TypeAAAA, 0, "2606:2800:220:1::5"},
		{"below.c.example.", dnsmessage.TypeA, 0, "93.184.216.2"},
		{"a.example.", dnsmessage.TypeTXT, 0, ""},
		{"a.example.", dnsmessage.Type(65), 0, ""}, // HTTPS (RFC 9460), which has keys for ECH
		{"gone.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"evil.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"c2VjcmV0.evil.example.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, ""}, // a tunnel
		{"1.216.184.93.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"rebound.example.", dnsmessage.TypeA, 0, ""},
		{"own.example.", dnsmessage.TypeA, 0, ""},
		{"metadata.example.", dnsmessage.TypeA, 0, ""},
		{"host.docker.internal.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
	} {
		code, found := ask(t, g, row.name, row.kind)
		var texts []string
		for _, a := range found {
			texts = append(texts, a.String())
		}
		if code != row.code || strings.Join(texts, " ") != row.want {
			t.Errorf("%s %s: %s %v", row.name, row.kind, code, found)
		}
	}
	refused := map[string]int{}
	for _, r := range g.log.After(0) {
		if r.Kind != KindDNS || r.Allowed {
			t.Errorf("%+v", r)
		}
		refused[r.Name+": "+r.Reason] = r.Count
	}
	for _, want := range []string{"evil.example: " + errName.Error(), "rebound.example: " + errPrivate.Error(), "own.example: " + errLoopback.Error()} {
		if refused[want] == 0 {
			t.Errorf("no record of %s in %v", want, refused)
		}
	}

	open := newGateway(t, Config{AllowGateway: true}, nil)
	for _, name := range gatewayNames {
		if _, found := ask(t, open, name+".", dnsmessage.TypeA); len(found) != 1 || found[0] != addrHost {
			t.Errorf("%s: %v", name, found)
		}
	}
	if code, _ := ask(t, open, "a.example.", dnsmessage.TypeA); code != dnsmessage.RCodeNameError {
		t.Errorf("with the gateway only: %s", code)
	}
}

// Over a connection there may be several questions (RFC 7766 section 6.2.1).
func TestDNS_Connection(t *testing.T) {
	g := newGateway(t, Config{Hosts: []string{"a.example"}}, nil)
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); g.DNS(t.Context(), far) }()
	query := []byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01")
	for range 2 {
		if _, err := near.Write(append([]byte{0, byte(len(query))}, query...)); err != nil {
			t.Fatal(err)
		}
		var length [2]byte
		if _, err := io.ReadFull(near, length[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, near, int64(length[1])+int64(length[0])<<8); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := near.Write([]byte{0, 3, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	<-done // what is not a question ends it
}

// program connects as a program in the container does. refused reports that the
// connection was not accepted.
func program(t *testing.T, g *Gateway, to string) (conn net.Conn, refused bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	near.SetDeadline(time.Now().Add(time.Minute))
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan bool, 2)
	go func() {
		if to == "" {
			accepted <- true
			g.Proxy(t.Context(), far)
			return
		}
		g.Connect(t.Context(), netip.MustParseAddrPort(to), func() (net.Conn, error) { accepted <- true; return far, nil })
		far.Close()
		accepted <- false
	}()
	return near, !<-accepted
}

// last waits for a record that has ended, and returns it.
func last(t *testing.T, g *Gateway, want func(Record) bool) Record {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		for _, r := range g.log.After(0) {
			if !r.Open && want(r) {
				return r
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("no such record: %+v", g.log.After(0))
	return Record{}
}

func TestConnect_Refused(t *testing.T) {
	g := newGateway(t, Config{Hosts: []string{"a.example"}, Ports: []int{443}}, map[netip.Addr]string{})
	ask(t, g, "a.example.", dnsmessage.TypeA)
	for to, reason := range map[string]error{
		"93.184.216.66:443":  errAddress,
		"169.254.169.254:80": errAddress,
		"10.0.0.1:443":       errAddress,
		"172.31.255.1:443":   errGateway,
		"93.184.216.1:22":    errPort,
	} {
		if _, refused := program(t, g, to); !refused {
			t.Errorf("%s was accepted", to)
		}
		want := netip.MustParseAddrPort(to)
		r := last(t, g, func(r Record) bool { return r.Address == want.Addr() && r.Port == int(want.Port()) })
		if r.Allowed || r.Reason != reason.Error() {
			t.Errorf("%s: %+v", to, r)
		}
	}
	if _, refused := program(t, g, "93.184.216.1:443"); !refused {
		t.Error("accepted, though it cannot be reached")
	}
	if r := last(t, g, func(r Record) bool { return r.Allowed }); r.Reason != "cannot be reached" || r.Name != "a.example" {
		t.Errorf("%+v", r)
	}
}

func TestConnect_TLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello "+r.Host) }))
	defer server.Close()
	g := newGateway(t, Config{Hosts: []string{"a.example", "b.example"}}, map[netip.Addr]string{addrA: server.Listener.Addr().String()})
	ask(t, g, "a.example.", dnsmessage.TypeA)
	ask(t, g, "b.example.", dnsmessage.TypeA)

	conn, refused := program(t, g, "93.184.216.1:443")
	if refused {
		t.Fatal("refused")
	}
	client := tls.Client(conn, &tls.Config{ServerName: "A.example", InsecureSkipVerify: true})
	body := get(t, client, "a.example")
	if body != "hello a.example" {
		t.Errorf("%q", body)
	}
	client.Close()
	if r := last(t, g, func(r Record) bool { return r.Allowed }); r.Name != "a.example" || r.Sent == 0 || r.Received == 0 {
		t.Errorf("%+v", r)
	}

	for name, row := range map[string]struct {
		server string
		reason error
	}{
		"another name at the address":        {"evil.example", errServerName},
		"an allowed name of another address": {"b.example", errServerName},
		"no name":                            {"", errNoServerName},
	} {
		conn, refused := program(t, g, "93.184.216.1:443")
		if refused {
			t.Fatal("refused")
		}
		if err := tls.Client(conn, &tls.Config{ServerName: row.server, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("%s: the handshake succeeded", name)
		}
		last(t, g, func(r Record) bool {
			return r.Reason == row.reason.Error() && (row.server == "" || r.Name == row.server)
		})
	}
}

// A ClientHello whose real name is encrypted (RFC 9849) is closed, also when the name outside is
// allowed.
func TestConnect_EncryptedClientHello(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	g := newGateway(t, Config{Hosts: []string{"a.example"}}, map[netip.Addr]string{addrA: server.Listener.Addr().String()})
	ask(t, g, "a.example.", dnsmessage.TypeA)
	conn, refused := program(t, g, "93.184.216.1:443")
	if refused {
		t.Fatal("refused")
	}
	cfg := &tls.Config{ServerName: "hidden.example", InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfigs(t, "a.example")}
	if err := tls.Client(conn, cfg).Handshake(); err == nil {
		t.Error("the handshake succeeded")
	}
	last(t, g, func(r Record) bool { return !r.Allowed && r.Reason == errECH.Error() })
}

// echConfigs is an ECHConfigList with one key, whose public name is name (RFC 9849 section 4).
func echConfigs(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// Key 1, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 with AES-128-GCM.
	contents := append([]byte{1, 0x00, 0x20, 0, 32}, key.PublicKey().Bytes()...)
	contents = append(contents, 0, 4, 0x00, 0x01, 0x00, 0x01, 0, byte(len(name)))
	contents = append(append(contents, name...), 0, 0)
	config := append([]byte{0xfe, 0x0d, 0, byte(len(contents))}, contents...)
	return append([]byte{0, byte(len(config))}, config...)
}

// get sends a request and returns the body.
func get(t *testing.T, conn net.Conn, host string) string {
	t.Helper()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

func TestConnect_HTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Method+" "+r.Host+" "+r.RequestURI+" "+r.Header.Get("X-Forwarded-For"))
	}))
	defer server.Close()
	g := newGateway(t, Config{Hosts: []string{"a.example"}}, map[netip.Addr]string{addrA: server.Listener.Addr().String()})
	ask(t, g, "a.example.", dnsmessage.TypeA)
	conn, refused := program(t, g, "93.184.216.1:80")
	if refused {
		t.Fatal("refused")
	}
	for range 2 {
		if got := get(t, conn, "a.example"); got != "GET a.example /" {
			t.Errorf("%q", got)
		}
	}
	// Another host in a later request of the connection, at the same address.
	if got := get(t, conn, "evil.example"); !strings.Contains(got, errHost.Error()) {
		t.Errorf("%q", got)
	}
	if r := last(t, g, func(r Record) bool { return !r.Allowed }); r.Name != "evil.example" || r.Kind != KindHTTP || r.Reason != errHost.Error() {
		t.Errorf("%+v", r)
	}
	if r := last(t, g, func(r Record) bool { return r.Allowed }); r.Name != "a.example" || r.Kind != KindHTTP || r.Sent == 0 || r.Received == 0 {
		t.Errorf("%+v", r)
	}
	for _, request := range []string{
		"GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", // RFC 9112 section 3.2.2: the URL counts
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example\r\nHost: evil.example\r\n\r\n",
	} {
		conn, refused := program(t, g, "93.184.216.1:80")
		if refused {
			t.Fatal("refused")
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && resp.StatusCode < 400 {
			t.Errorf("%q: %s", request, resp.Status)
		}
		conn.Close()
	}
}

// A WebSocket begins as a request, and is then carried.
func TestConnect_Upgrade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	}))
	defer server.Close()
	g := newGateway(t, Config{Hosts: []string{"a.example"}}, map[netip.Addr]string{addrA: server.Listener.Addr().String()})
	ask(t, g, "a.example.", dnsmessage.TypeA)
	conn, _ := program(t, g, "93.184.216.1:80")
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	conn.Close()
	if r := last(t, g, func(r Record) bool { return r.Allowed }); r.Kind != KindHTTP || r.Sent == 0 {
		t.Errorf("%+v", r)
	}
}

// SSH, SMTP and others: one side sends first, and what it sends carries no name.
func TestConnect_OtherProtocols(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				line, err := bufio.NewReader(c).ReadString('\n')
				if err == nil {
					io.WriteString(c, "220 "+line)
				}
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	greeting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer greeting.Close()
	go func() {
		if c, err := greeting.Accept(); err == nil {
			io.WriteString(c, "SSH-2.0-x\r\n")
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	g := newGateway(t, Config{Hosts: []string{"a.example", "b.example"}}, map[netip.Addr]string{addrA: l.Addr().String(), addrB: greeting.Addr().String()})
	ask(t, g, "a.example.", dnsmessage.TypeA)
	ask(t, g, "b.example.", dnsmessage.TypeA)
	conn, _ := program(t, g, "93.184.216.1:25")
	for _, part := range []string{"EH", "LO a.exa", "mple\r\n"} { // also in parts
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "220 EHLO a.example\r\n" {
		t.Errorf("%q, %v", line, err)
	}
	conn.(*net.TCPConn).CloseWrite()
	if r := last(t, g, func(r Record) bool { return r.Port == 25 }); !r.Allowed || r.Sent != 16 || r.Received != 20 {
		t.Errorf("%+v", r)
	}

	conn, _ = program(t, g, "93.184.216.2:22")
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "SSH-2.0-x\r\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := io.WriteString(conn, "echo\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != "echo\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestProxy(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "plain "+r.Host+r.RequestURI) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secure") }))
	defer secure.Close()
	g := newGateway(t, Config{Hosts: []string{"a.example", "b.example"}}, map[netip.Addr]string{addrA: plain.Listener.Addr().String(), addrB: secure.Listener.Addr().String()})

	send := func(request string) (net.Conn, *bufio.Reader, *http.Response) {
		conn, _ := program(t, g, "")
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		method, _, _ := strings.Cut(request, " ")
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		return conn, r, resp
	}
	_, _, resp := send("GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic eA==\r\n\r\n")
	if body, _ := io.ReadAll(resp.Body); string(body) != "plain a.example/x?y" {
		t.Errorf("%s: %q", resp.Status, body)
	}
	for _, request := range []string{
		"GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"GET http://10.9.8.7/ HTTP/1.1\r\nHost: 10.9.8.7\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT host.docker.internal:22 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if _, _, resp := send(request); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%q: %s", request, resp.Status)
		}
	}
	if _, _, resp := send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("not a request for a proxy: %s", resp.Status)
	}

	conn, _, resp := send("CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	client := tls.Client(conn, &tls.Config{ServerName: "b.example", InsecureSkipVerify: true})
	if got := get(t, client, "b.example"); got != "secure" {
		t.Errorf("%q", got)
	}
	client.Close()
	if r := last(t, g, func(r Record) bool { return r.Name == "b.example" }); !r.Allowed || r.Port != 443 || r.Received == 0 {
		t.Errorf("%+v", r)
	}
	conn, _, _ = send("CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n")
	if err := tls.Client(conn, &tls.Config{ServerName: "evil.example", InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("another name in the handshake was accepted")
	}
}

func TestLog_Bounds(t *testing.T) {
	var reported int
	l := &Log{Ended: func(Record) { reported++ }}
	for range 5000 {
		l.refuse(Record{Kind: KindDNS, Name: "same.example"}, errName)
	}
	if all := l.After(0); len(all) != 1 || all[0].Count != 5000 || reported != 5000 {
		t.Fatalf("%d records, %d reported", len(all), reported)
	}
	end := l.open(Record{Kind: KindTCP, Name: "long.example"})
	for i := range 3 * maxRecords {
		l.refuse(Record{Kind: KindTCP, Port: i + 1}, errAddress)
	}
	if n := len(l.After(0)); n != maxRecords {
		t.Errorf("%d records", n)
	}
	before := l.last
	end(1, 2, "")
	if all := l.After(before); len(all) != 1 || all[0].Name != "long.example" || all[0].Received != 2 || len(l.After(0)) != maxRecords {
		t.Errorf("after the end: %+v", all)
	}
}

func TestAnswers_Bounds(t *testing.T) {
	a := answers{by: map[netip.Addr]map[string]time.Time{}}
	addr := addrA
	for range maxAnswers + 50 {
		addr = addr.Next()
		a.add("x.example", []netip.Addr{addr})
	}
	if len(a.by) > maxAnswers || !a.names(addr)["x.example"] {
		t.Errorf("%d answers", len(a.by))
	}
	a.by[addr]["x.example"] = time.Now().Add(-time.Second)
	if a.names(addr)["x.example"] {
		t.Error("an answer that has expired counts")
	}
}

// A rule allows nothing that its text does not name.
func FuzzRules(f *testing.F) {
	f.Add("*.a.example", "b.a.example", 443)
	f.Add(".a.example", "a.example", 0)
	f.Add("10.0.0.0/8", "10.1.2.3", 80)
	f.Add("169.254.0.0/16", "169.254.169.254", 80)
	f.Add("a.example", "xa.example", 70000)
	f.Fuzz(func(t *testing.T, host, name string, port int) {
		cfg := Config{Hosts: []string{host}, Ports: []int{port}, Gateway: addrHost}
		r, err := cfg.parse()
		if err != nil {
			return
		}
		name = canonical(name)
		bare := strings.TrimLeft(canonical(host), "*.")
		if r.name(name) && name != bare && !strings.HasSuffix(name, "."+bare) {
			t.Errorf("%q allows the name %q", host, name)
		}
		addr, err := netip.ParseAddr(name)
		if err != nil || addr.Zone() != "" {
			return
		}
		addr = addr.Unmap()
		if _, err := r.target(netip.AddrPortFrom(addr, 443), false); err == nil {
			prefix, prefixErr := netip.ParsePrefix(host)
			if one, err := netip.ParseAddr(host); err == nil {
				prefix, prefixErr = netip.PrefixFrom(one.Unmap(), one.Unmap().BitLen()), nil
			}
			if prefixErr != nil || !prefix.Contains(addr) || port != 443 || addr == addrHost {
				t.Errorf("%q on port %d allows the address %s on port 443", host, port, addr)
			}
		}
	})
}

func FuzzDNS(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		g := newGateway(t, Config{Hosts: []string{".example"}}, nil)
		answer, err := g.answer(t.Context(), message)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || !m.Response || len(m.Questions) != 1 {
			t.Errorf("%v: %x", err, answer)
		}
		for _, a := range m.Answers {
			if name := canonical(a.Header.Name.String()); !strings.HasSuffix(name, "example") {
				t.Errorf("an answer for %q", name)
			}
		}
	})
}

func FuzzSniff(f *testing.F) {
	near, far := net.Pipe()
	go func() { _ = tls.Client(near, &tls.Config{ServerName: "a.example"}).Handshake() }()
	hello := make([]byte, 4096)
	n, err := far.Read(hello)
	if err != nil {
		f.Fatal(err)
	}
	near.Close()
	f.Add(hello[:n])
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("EHLO x\r\n"))
	f.Add([]byte{recordHandshake, 3, 1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		conn := &firstRead{Conn: &recorder{from: strings.NewReader(""), max: 1}, first: append([]byte(nil), b...)}
		name, isHTTP, err := sniff(t.Context(), conn)
		if name != "" && err == nil && (!validName(name) || len(b) == 0 || b[0] != recordHandshake || isHTTP) {
			t.Errorf("%q of %x", name, b)
		}
		// What was read is what the other side receives.
		if err == nil {
			if got, _ := io.ReadAll(conn); string(got) != string(b) {
				t.Errorf("%x became %x", b, got)
			}
		}
	})
}
