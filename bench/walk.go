package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

type pageAnswer struct {
	Servers  []json.RawMessage
	Metadata struct{ NextCursor string }
}

// walk follows all pages of a list, one page at a time.
type walk struct {
	list string // its address, without a query
	want int    // how many versions are there

	cursor  string
	cursors []string // of the pages that were read
	seen    int
	times   []float64 // of each page, in milliseconds
	done    bool
}

const pageSize = 30

// next reads one page.
func (w *walk) next(ctx context.Context, c *caller) error {
	began := time.Now()
	body, err := c.get(ctx, fmt.Sprintf("%s?limit=%d&cursor=%s", w.list, pageSize, url.QueryEscape(w.cursor)))
	if err != nil {
		return err
	}
	w.times = append(w.times, milliseconds(time.Since(began)))
	var p pageAnswer
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	w.cursors, w.seen = append(w.cursors, w.cursor), w.seen+len(p.Servers)
	if w.cursor = p.Metadata.NextCursor; w.cursor != "" {
		return nil
	}
	w.done = true
	if w.seen != w.want {
		return fmt.Errorf("%s has %d versions; the pages together had %d", w.list, w.want, w.seen)
	}
	return nil
}

// progress is how much of the list was seen.
func (w *walk) progress() float64 { return float64(w.seen) / float64(w.want) }

// total is the time of the walk, in milliseconds; tenths are the medians of its
// first and last tenth.
func (w *walk) total() (sum float64) {
	for _, t := range w.times {
		sum += t
	}
	return sum
}

func (w *walk) tenths() (first, last float64) {
	tenth := max(1, len(w.times)/10)
	return median(w.times[:tenth]), median(w.times[len(w.times)-tenth:])
}

// pages is a stream of the list's full pages, far apart from each other.
func (w *walk) pages(rate int) stream {
	full := w.cursors[:max(1, len(w.cursors)-1)]
	return stream{rate: rate, holds: fmt.Sprintf(`"count":%d`, pageSize), at: func(i int) string {
		return fmt.Sprintf("%s?limit=%d&cursor=%s", w.list, pageSize, url.QueryEscape(full[i*7919%len(full)]))
	}}
}

// together walks all lists a page here and a page there, each at the same
// fraction of its way, so that all meet the same machine.
func together(ctx context.Context, c *caller, walks ...*walk) error {
	for {
		var behind *walk
		for _, w := range walks {
			if !w.done && (behind == nil || w.progress() < behind.progress()) {
				behind = w
			}
		}
		if behind == nil {
			return nil
		}
		if behind.seen > 2*behind.want {
			return errors.New(behind.list + " does not end")
		}
		if err := behind.next(ctx, c); err != nil {
			return err
		}
	}
}
