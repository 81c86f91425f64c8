package guest

import (
	"net/netip"
	"testing"
)

func TestParseOutgoing(t *testing.T) {
	for line, want := range map[string]string{
		`{"op":"connect","address":"192.0.2.1:443"}`:        "connect 192.0.2.1:443",
		`{"op":"connect","address":"[2001:db8::1]:443"}`:    "connect [2001:db8::1]:443",
		`{"op":"connect","address":"[::ffff:10.0.0.1]:80"}`: "connect 10.0.0.1:80", // as the rules have it
		`{"op":"connect","address":"[fe80::1%eth0]:80"}`:    "connect [fe80::1]:80",
		`{"op":"proxy"}`: "proxy invalid AddrPort",
		`{"op":"dns"}`:   "dns invalid AddrPort",
		`{"op":"rejected-udp","address":"192.0.2.1:443"}`: "rejected-udp 192.0.2.1:443",
		`{"op":"rejected-icmp"}`:                          "",
		`{"op":"connect","address":"a.example:443"}`:      "",
		`{"op":"connect","address":"192.0.2.1"}`:          "",
		`{"op":"connect"}`:                                "",
		`{"op":"spawn"}`:                                  "",
		`{"op":"dns","more":1}`:                           "",
		`{`:                                               "",
	} {
		op, to, err := parseOutgoing([]byte(line))
		if want == "" {
			if err == nil {
				t.Errorf("%s: %s %s", line, op, to)
			}
			continue
		}
		if got := op + " " + to.String(); err != nil || got != want {
			t.Errorf("%s: %s, %v", line, got, err)
		}
	}
}

func FuzzParseOutgoing(f *testing.F) {
	f.Add([]byte(`{"op":"connect","address":"192.0.2.1:443"}`))
	f.Add([]byte(`{"op":"dns"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		op, to, err := parseOutgoing(line)
		if err == nil && (op == opProxy || op == opDNS) == to.IsValid() || err == nil && to.Addr().Is4In6() {
			t.Errorf("%s %s", op, to)
		}
		if err != nil && to != (netip.AddrPort{}) {
			t.Errorf("%s with %v", to, err)
		}
	})
}
