package auth

import (
	"context"
	"slices"
	"time"
)

// decide implements the order of specification section 5: a JWT is verified by the
// providers of its issuer only, and introspected there if that fails; an opaque token
// is introspected by every provider with an endpoint. What needs no request is
// decided at once; consult does the rest.
func (v *Validator) decide(ctx context.Context, key digest, token string) (*verdict, *Rejection) {
	t := parseToken(token)
	if t != nil && t.claims == nil {
		return nil, &Rejection{Attempts: []Attempt{{Reason: t.fault.reason}}}
	}
	d := &decision{v: v, token: token, jwt: t, attempts: make([][]Attempt, len(v.providers))}
	for i, p := range v.providers {
		if t != nil && !p.IntrospectionOnly {
			if t.issuer() != p.IssuerURL {
				d.skip(i, Attempt{Reason: "skipped: the token names another issuer", Expected: p.IssuerURL, Got: wordsOf(t.claims["iss"]), Skipped: true})
				continue
			}
			got, r, more := p.verifyHeld(t)
			if got != nil {
				v.observe(p.Name, "accepted")
				return got, nil
			}
			if more == nil && p.IntrospectionURL == "" {
				d.refused(i, r)
				continue
			}
		} else if p.IntrospectionURL == "" {
			d.skip(i, Attempt{Reason: "skipped: the token is opaque and the provider has no introspectionUrl", Skipped: true})
			continue
		}
		d.candidates = append(d.candidates, i)
	}
	if len(d.candidates) == 0 {
		return nil, d.rejection()
	}
	if old, ok := v.refused.GetIfPresent(key); ok && v.now().Before(old.until) {
		return nil, old.rejection
	}
	return v.share(ctx, key, d)
}

// share makes callers with the same token wait for one decision, which does not end
// with the request that started it.
func (v *Validator) share(ctx context.Context, key digest, d *decision) (*verdict, *Rejection) {
	type outcome struct {
		verdict   *verdict
		rejection *Rejection
	}
	done := v.flights.DoChan(string(key[:]), func() (any, error) {
		// Re-check the cache: another call may have filled it.
		if hit := v.hit(key); hit != nil {
			return outcome{hit, nil}, nil
		}
		results := make(chan outcome, 1)
		started := v.tasks.run(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, decideTimeout)
			defer cancel()
			got, rejection := d.consult(ctx)
			if rejection != nil && !rejection.Unavailable {
				v.refused.Set(key, remembered{rejection, v.now().Add(refusalFor)})
			}
			if rejection == nil { // before the next decision can start
				v.accepted.Set(key, got)
			}
			results <- outcome{got, rejection}
		})
		if !started {
			return outcome{nil, &Rejection{Unavailable: true, Attempts: []Attempt{{Reason: errClosed.Error()}}}}, nil
		}
		return <-results, nil
	})
	select {
	case r := <-done:
		o := r.Val.(outcome)
		return o.verdict, o.rejection
	case <-ctx.Done():
		return nil, &Rejection{Unavailable: true, Attempts: []Attempt{{Reason: "the caller canceled the request before the token was decided on"}}}
	}
}

// decision is the decision on one token.
type decision struct {
	v     *Validator
	token string
	jwt   *jwt // nil: opaque
	// candidates are the indexes of the providers to consult.
	candidates []int
	// attempts are the rejections, by provider.
	attempts    [][]Attempt
	unavailable bool
}

// answer is the result of one candidate: a verdict, or refusals.
type answer struct {
	turn     int // index among the candidates
	verdict  *verdict
	refusals []*refusal
}

// consult consults the candidates in order: the next one when the previous one
// refused, or did not answer within patience, so that a slow or unreachable provider
// does not delay tokens of others. The first acceptance wins.
func (d *decision) consult(ctx context.Context) (*verdict, *Rejection) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(d.candidates))
	impatient := time.NewTimer(0)
	defer impatient.Stop()
	asked := 0
	for open := len(d.candidates); open > 0; {
		select {
		case <-impatient.C:
		case a := <-answers:
			if a.verdict != nil {
				d.v.observe(a.verdict.provider.Name, "accepted")
				return a.verdict, nil
			}
			for _, r := range a.refusals {
				d.refused(d.candidates[a.turn], r)
			}
			open--
			if a.turn != asked-1 {
				continue // a later candidate was started already
			}
		}
		if asked < len(d.candidates) {
			p := d.v.providers[d.candidates[asked]]
			go d.answer(ctx, asked, p, answers)
			asked++
			wait := d.v.patience
			if p.slow.Load() {
				wait = 0
			}
			impatient.Reset(wait)
		}
	}
	return nil, d.rejection()
}

// answer consults one candidate and records whether it was slow.
func (d *decision) answer(ctx context.Context, turn int, p *provider, answers chan<- answer) {
	begun := time.Now()
	a := answer{turn: turn}
	a.verdict, a.refusals = d.consultOne(ctx, p)
	// A canceled request is no measurement.
	if slow := time.Since(begun) > d.v.patience; slow || ctx.Err() == nil {
		p.slow.Store(slow)
	}
	answers <- a
}

// consultOne verifies and introspects at one provider.
func (d *decision) consultOne(ctx context.Context, p *provider) (*verdict, []*refusal) {
	var refusals []*refusal
	if d.jwt != nil && !p.IntrospectionOnly {
		got, r := p.verify(ctx, d.jwt)
		if got != nil {
			return got, nil
		}
		refusals = append(refusals, r)
	}
	if p.IntrospectionURL != "" {
		got, r := p.introspect(ctx, d.token)
		if got != nil {
			return got, nil
		}
		refusals = append(refusals, r)
	}
	return nil, refusals
}

// skip records a provider that was not consulted.
func (d *decision) skip(provider int, a Attempt) {
	a.Provider = d.v.providers[provider].Name
	d.attempts[provider] = append(d.attempts[provider], a)
}

// refused records a provider's refusal.
func (d *decision) refused(provider int, r *refusal) {
	outcome := "rejected"
	if r.unavailable {
		outcome, d.unavailable = "unavailable", true
	}
	d.v.observe(d.v.providers[provider].Name, outcome)
	d.skip(provider, Attempt{Reason: r.reason, Expected: r.expected, Got: r.got})
}

func (d *decision) rejection() *Rejection {
	return &Rejection{Attempts: slices.Concat(d.attempts...), Unavailable: d.unavailable}
}
