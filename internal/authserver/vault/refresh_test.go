package vault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
)

func TestToken_RefreshTime(t *testing.T) {
	for _, row := range []struct {
		name      string
		life      time.Duration
		due       time.Duration // after the login
		unchanged bool
	}{
		{"an hour", time.Hour, 59 * time.Minute, false},
		{"five minutes", 5 * time.Minute, 4 * time.Minute, false},
		{"ten seconds", 10 * time.Second, 8 * time.Second, false},
		{"unknown", 0, 20 * time.Hour, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				v := w.process()
				tokens := w.provider.issue()
				tokens.Expiry = time.Now().Add(row.life)
				if row.life == 0 {
					tokens.Expiry = time.Time{}
				}
				if err := v.Save(t.Context(), alice, tokens, 24*time.Hour); err != nil {
					t.Fatal(err)
				}
				time.Sleep(row.due - time.Nanosecond)
				token(t, v, "access-1")
				requests(t, w, 0)
				time.Sleep(time.Nanosecond)
				if row.unchanged {
					token(t, v, "access-1")
					requests(t, w, 0)
					return
				}
				token(t, v, "access-2")
				token(t, v, "access-2")
				token(t, w.process(), "access-2")
				requests(t, w, 1)
			})
		})
	}
}

func TestToken_NoRefreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		tokens := w.provider.issue()
		tokens.RefreshToken = ""
		if err := v.Save(t.Context(), alice, tokens, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Renew(t.Context(), alice, tokens.AccessToken); !errors.Is(err, ErrLogin) {
			t.Errorf("Renew: %v", err)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		token(t, v, "access-1")
		time.Sleep(time.Nanosecond)
		noToken(t, v, ErrLogin)
		requests(t, w, 0)
	})
}

// 200 calls in three processes at the expiry of a token: one request.
func TestToken_OneRefresh(t *testing.T) {
	for name, age := range map[string]time.Duration{"shortly before it expires": time.Hour - time.Second, "after it expired": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				processes := []*Vault{w.process(), w.process(), w.process()}
				w.login(t, processes[0])
				w.provider.set(func(p *provider) {
					p.during = func(context.Context, int) { time.Sleep(2 * time.Second) }
				})
				time.Sleep(age)
				var wg sync.WaitGroup
				for i := range 200 {
					wg.Go(func() { token(t, processes[i%3], "access-2") })
				}
				wg.Wait()
				requests(t, w, 1)
			})
		})
	}
}

// What an answer leaves out is kept (RFC 6749 sections 5.1 and 6).
func TestRefresh_Kept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) {
			p.change = func(got *upstream.Tokens) {
				p.valid-- // the refresh token stays valid
				*got = upstream.Tokens{AccessToken: secret + "next", Expiry: got.Expiry}
			}
		})
		for i := range 3 {
			time.Sleep(time.Hour)
			token(t, v, "next")
			requests(t, w, i+1)
		}
		r, err := v.fetch(t.Context(), alice.key())
		if err != nil || r.Tokens.RefreshToken != secret+"refresh-1" || r.Tokens.IDToken != secret+"id-1" || len(r.Tokens.Scopes) != 1 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

// While the provider fails, the old token is returned until it expires; the provider does not
// receive a request for each call.
func TestRefresh_ProviderFails(t *testing.T) {
	failures := map[string]func(p *provider){
		"unavailable":     func(p *provider) { p.fail = upstream.ErrUnavailable },
		"denied":          func(p *provider) { p.fail = upstream.ErrDenied },
		"not OAuth":       func(p *provider) { p.fail = errors.New("its answer is not JSON") },
		"no access token": func(p *provider) { p.change = func(t *upstream.Tokens) { t.AccessToken = ""; p.valid-- } },
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				v := w.process()
				w.login(t, v)
				w.provider.set(fail)
				time.Sleep(59 * time.Minute)
				for range 100 {
					token(t, v, "access-1")
				}
				requests(t, w, 1)
				time.Sleep(time.Minute)
				for range 100 {
					noToken(t, v, ErrUnavailable)
				}
				requests(t, w, 2)
				if _, err := v.Renew(t.Context(), alice, secret+"access-1"); !errors.Is(err, ErrUnavailable) {
					t.Errorf("Renew: %v", err)
				}
				w.provider.set(func(p *provider) { p.fail, p.change = nil, nil })
				time.Sleep(failedTime)
				token(t, v, "access-2")
			})
		})
	}
}

// A provider that does not answer delays a call whose token is valid by a bounded time, and
// only the first ones.
func TestRefresh_ProviderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) {
			p.during = func(ctx context.Context, _ int) { <-ctx.Done() }
		})
		time.Sleep(59 * time.Minute)
		for _, want := range []time.Duration{waitValid, 0} {
			began := time.Now()
			token(t, v, "access-1")
			if took := time.Since(began); took != want {
				t.Errorf("it took %s, not %s", took, want)
			}
		}
		time.Sleep(time.Minute)
		began := time.Now()
		noToken(t, v, ErrUnavailable)
		if took := time.Since(began); took > requestTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

// The provider refused the refresh token: the old token is used until it expires, then a new
// login is needed. The provider is not asked again.
func TestRefresh_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v, other := w.process(), w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) { p.fail = upstream.ErrExpired })
		time.Sleep(59 * time.Minute)
		token(t, v, "access-1")
		token(t, other, "access-1")
		for _, v := range []*Vault{v, other} {
			if _, err := v.Renew(t.Context(), alice, secret+"access-1"); !errors.Is(err, ErrLogin) {
				t.Errorf("Renew: %v", err)
			}
		}
		time.Sleep(time.Minute)
		noToken(t, v, ErrLogin)
		noToken(t, other, ErrLogin)
		requests(t, w, 1)
		w.provider.set(func(p *provider) { p.fail = nil })
		w.login(t, other)
		token(t, v, "access-2")
	})
}

// A caller that leaves does not end the refresh: its answer is saved.
func TestRefresh_CallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) {
			p.during = func(context.Context, int) { time.Sleep(10 * time.Second) }
		})
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := v.Token(ctx, alice); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		v.Close(t.Context()) // waits for it
		token(t, v, "access-2")
		token(t, w.process(), "access-2")
		requests(t, w, 1)
		time.Sleep(time.Hour)
		noToken(t, v, ErrUnavailable) // it is closed
	})
}

// A process that died holds the lease: another one waits until it ends.
func TestRefresh_HolderDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		time.Sleep(time.Hour - waitValid - time.Second)
		if _, err := w.store.Lease(t.Context(), alice.key(), leaseTime); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		token(t, v, "access-1") // still valid
		if took := time.Since(began); took > waitValid {
			t.Errorf("it took %s", took)
		}
		token(t, v, "access-1") // it expires in a second, and this call does not wait again
		time.Sleep(time.Second)
		token(t, v, "access-2")
		if took := time.Since(began); took < leaseTime-time.Second || took > leaseTime+time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		processes := []*Vault{w.process(), w.process(), w.process()}
		v := processes[0]
		w.login(t, v)
		w.provider.set(func(p *provider) {
			p.during = func(context.Context, int) { time.Sleep(time.Second) }
		})
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() { renew(t, processes[i%3], "access-1", "access-2") })
		}
		wg.Wait()
		renew(t, v, "access-1", "access-2") // later
		requests(t, w, 1)

		// The new token is rejected too: a refresh does not help, until later.
		renew(t, v, "access-2", "access-2")
		renew(t, processes[1], "access-2", "access-2")
		requests(t, w, 1)
		time.Sleep(renewedTime)
		renew(t, v, "access-2", "access-3")
		requests(t, w, 2)
	})
}

// A provider that issues the same access token again is asked once.
func TestRenew_SameToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) {
			p.change = func(t *upstream.Tokens) { t.AccessToken = secret + "access-1" }
		})
		for range 3 {
			renew(t, v, "access-1", "access-1")
			time.Sleep(time.Minute)
		}
		requests(t, w, 1)
		time.Sleep(time.Hour) // the refresh token that was rotated is kept
		w.provider.set(func(p *provider) { p.change = nil })
		token(t, v, "access-3")
	})
}

// The provider refuses the refresh token of a token that a server rejected.
func TestRenew_Refused(t *testing.T) {
	w := newWorld(t)
	v := w.process()
	w.login(t, v)
	w.provider.set(func(p *provider) { p.fail = upstream.ErrExpired })
	for range 2 {
		if got, err := v.Renew(t.Context(), alice, secret+"access-1"); !errors.Is(err, ErrLogin) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	requests(t, w, 1)
}

func TestRenew_NoProvider(t *testing.T) {
	w := newWorld(t)
	v := w.process()
	b := alice
	b.Provider = "removed"
	if err := v.Save(t.Context(), b, w.provider.issue(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, _, err := v.Token(t.Context(), b); err != nil || got != secret+"access-1" {
		t.Errorf("Token: %q, %v", got, err)
	}
	if _, err := v.Renew(t.Context(), b, secret+"access-1"); !errors.Is(err, ErrLogin) {
		t.Errorf("Renew: %v", err)
	}
}

// The store fails when an answer is to be saved: it is saved later, and not returned before.
func TestSave_StoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) { p.after = func(int) { w.store.down() } })
		time.Sleep(time.Hour)
		noToken(t, v, ErrUnavailable)
		requests(t, w, 1)
		time.Sleep(30 * time.Second) // the store is down for a minute
		w.store.fail(nil)
		time.Sleep(failedTime + maxPause)
		token(t, v, "access-2")
		token(t, w.process(), "access-2")
		requests(t, w, 1)
	})
}

// The answer of the store is lost, and yet the value was stored.
func TestSave_AnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		time.Sleep(time.Hour)
		lost := false
		w.store.fail(func(operation string) (error, error) {
			if operation == "Swap" && !lost {
				lost = true
				return nil, errDown
			}
			return nil, nil
		})
		token(t, v, "access-2")
		token(t, w.process(), "access-2")
		requests(t, w, 1)
	})
}

// Two processes refresh at once because a lease was lost. The provider refuses the one that
// is later. Whichever saves first, the new tokens are kept.
func TestSave_LeaseLost(t *testing.T) {
	for name, slow := range map[string]int{"the answer is saved first": 2, "the refusal is saved first": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.process(), w.process()
				w.login(t, a)
				time.Sleep(time.Hour)
				w.store.fail(func(operation string) (error, error) {
					if operation == "Lease" {
						return nil, errors.New("granted to everyone")
					}
					return nil, nil
				})
				w.provider.set(func(p *provider) {
					p.during = func(_ context.Context, request int) { time.Sleep(time.Duration(request) * time.Second) }
					p.after = func(request int) {
						if request == slow {
							time.Sleep(10 * time.Second)
						}
					}
				})
				var wg sync.WaitGroup
				for _, v := range []*Vault{a, b} {
					wg.Go(func() {
						got, _, err := v.Token(t.Context(), alice)
						refusedFirst := slow == 1 && errors.Is(err, ErrLogin) // what is stored at that time
						if got != secret+"access-2" && !refusedFirst {
							t.Errorf("got %q, %v", got, err)
						}
					})
				}
				wg.Wait()
				requests(t, w, 2)
				w.store.fail(nil)
				token(t, a, "access-2")
				token(t, b, "access-2")
				requests(t, w, 2)
			})
		})
	}
}

// What happens to a binding while its token is refreshed is not undone by the answer.
func TestSave_ChangedMeanwhile(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(t *testing.T, w *world, v *Vault)
		want   string
	}{
		{"a new login", func(t *testing.T, w *world, v *Vault) { w.login(t, v) }, "access-2"},
		{"a logout", func(t *testing.T, _ *world, v *Vault) {
			if err := v.Delete(t.Context(), alice); err != nil {
				t.Error(err)
			}
		}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				v, other := w.process(), w.process()
				w.login(t, v)
				time.Sleep(time.Hour)
				w.provider.set(func(p *provider) {
					p.during = func(context.Context, int) { row.change(t, w, other) }
					p.change = func(got *upstream.Tokens) { got.AccessToken = secret + "late" }
				})
				if row.want == "" {
					noToken(t, v, ErrLogin)
					noToken(t, other, ErrLogin)
					return
				}
				for range 2 {
					token(t, v, row.want)
					token(t, other, row.want)
				}
			})
		})
	}
}

// A token expires while its refresh takes long: the call waits for the refresh.
func TestRefresh_ExpiresMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		w.provider.set(func(p *provider) {
			p.during = func(context.Context, int) { time.Sleep(10 * time.Second) }
		})
		time.Sleep(time.Hour - time.Second)
		token(t, v, "access-2")
		requests(t, w, 1)
	})
}

// Failed refreshes of many logins are not remembered without bound.
func TestFlights_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.provider.set(func(p *provider) { p.fail = upstream.ErrUnavailable })
		tokens := w.provider.issue()
		tokens.Expiry = time.Now()
		for i := range maxFailed + 200 {
			b := alice
			b.Session = fmt.Sprint(i)
			if err := v.Save(t.Context(), b, tokens, time.Hour); err != nil {
				t.Fatal(err)
			}
			if _, _, err := v.Token(t.Context(), b); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if len(v.flights) > maxFailed {
			t.Errorf("%d are kept", len(v.flights))
		}
	})
}
