package httpd

import (
	"sync"
	"testing"
)

func TestReservation_ReleasedOnce(t *testing.T) {
	b := Budget{Max: 10 * SmallSize}
	if r, ok := b.Reserve(SmallSize); r != nil || !ok || b.Used() != 0 {
		t.Error("something small is counted")
	}
	r, ok := b.Reserve(9 * SmallSize)
	if _, tooMuch := b.Reserve(2 * SmallSize); !ok || tooMuch || b.Used() != 9*SmallSize {
		t.Errorf("%d bytes are used", b.Used())
	}
	for range 100 {
		r.Retain()
	}
	var all sync.WaitGroup
	for range 101 {
		all.Go(func() { r.Retain().Release(); r.Release() })
	}
	all.Wait()
	if r.Retain() != nil || b.Used() != 0 {
		t.Errorf("%d bytes are used in the end", b.Used())
	}
}

func TestBudget_HalfIsForResponses(t *testing.T) {
	b := Budget{Max: 100}
	if !b.TakeHalf(50) || b.TakeHalf(1) || !b.Take(50) || b.Take(1) {
		t.Errorf("%d bytes are used", b.Used())
	}
	b.Give(50)
	if b.TakeHalf(1) || b.Used() != 50 {
		t.Errorf("%d bytes are used after half was given back", b.Used())
	}
}

func TestReservation_CountedInShare(t *testing.T) {
	b, share := Budget{Max: 10 * SmallSize}, Budget{Max: 3 * SmallSize}
	first, _ := b.Reserve(2 * SmallSize)
	second, _ := b.Reserve(2 * SmallSize)
	if !first.CountIn(&share) || second.CountIn(&share) {
		t.Errorf("%d bytes of the share are used", share.Used())
	}
	first.Release()
	second.Release()
	if b.Used() != 0 || share.Used() != 0 {
		t.Errorf("%d and %d bytes are used in the end", b.Used(), share.Used())
	}
}
