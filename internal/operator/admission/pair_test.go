package admission

import (
	"bytes"
	"testing"
	"time"
)

func TestPair(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	hosts := []string{"webhook.system.svc", "127.0.0.1"}
	p, err := newPair(hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newPair(hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pair  *pair
		hosts []string
		at    time.Time
		ok    bool
	}{
		"new":                  {p, hosts, now, true},
		"before its renewal":   {p, hosts, now.Add(validity - renewal - time.Minute), true},
		"after its renewal":    {p, hosts, now.Add(validity - renewal + time.Minute), false},
		"after its end":        {p, hosts, now.Add(validity + time.Minute), false},
		"clock behind":         {p, hosts, now.Add(-2 * time.Hour), false},
		"another host":         {p, []string{"other.system.svc"}, now, false},
		"another authority":    {&pair{other.authority, p.certificate, p.key}, hosts, now, false},
		"another key":          {&pair{p.authority, p.certificate, other.key}, hosts, now, false},
		"no authority":         {&pair{nil, p.certificate, p.key}, hosts, now, false},
		"an empty Secret":      {&pair{}, hosts, now, false},
		"broken certificate":   {&pair{p.authority, []byte("x"), p.key}, hosts, now, false},
		"authority is garbage": {&pair{[]byte("x"), p.certificate, p.key}, hosts, now, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, end, err := c.pair.check(c.hosts, c.at)
			if (err == nil) != c.ok {
				t.Errorf("check: %v", err)
			}
			if err == nil && !end.After(c.at) {
				t.Errorf("it is to be replaced at %s", end)
			}
		})
	}
}

func TestJoinBundle(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	make := func(at time.Time) []byte {
		p, err := newPair([]string{"h"}, at)
		if err != nil {
			t.Fatal(err)
		}
		return p.authority
	}
	a, b, ended := make(now), make(now), make(now.Add(-2*validity))
	both := bytes.Join([][]byte{a, b}, nil)
	for name, c := range map[string]struct{ bundle, authority, want []byte }{
		"the first":          {nil, a, a},
		"the same":           {a, a, a},
		"a second":           {a, b, both},
		"there already":      {both, a, both},
		"one that has ended": {bytes.Join([][]byte{ended, a}, nil), b, both},
		"no certificate":     {[]byte("bm9uZQ=="), a, a},
	} {
		t.Run(name, func(t *testing.T) {
			if got := joinBundle(c.bundle, c.authority, now); !bytes.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
