package egress

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Kinds of a Record.
const (
	KindTCP  = "tcp"  // a connection, with or without TLS
	KindDNS  = "dns"  // a question
	KindHTTP = "http" // a request of plain HTTP, or through the proxy
	KindUDP  = "udp"  // a datagram; none is allowed
	KindICMP = "icmp" // the same
)

// Record is a connection of the server, or one that was refused.
type Record struct {
	// Change grows with each change of a record.
	Change uint64    `json:"change"`
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	// Name is the host's name, "" for an address without one.
	Name    string     `json:"name,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
	Port    int        `json:"port,omitempty"`
	Allowed bool       `json:"allowed"`
	// Reason is why it was refused, or failed.
	Reason string `json:"reason,omitempty"`
	// Sent and Received count the bytes from and to the server, when the connection ends.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// Open: the connection has not ended.
	Open bool `json:"open,omitempty"`
	// Count is how many equal refusals this is.
	Count int `json:"count"`
}

// maxRecords bounds a Log.
const maxRecords = 1000

// Log has the last records, in bounded number. It may be used concurrently.
type Log struct {
	// Ended, if not nil, receives each refusal and each connection that has ended. It must
	// not block. It is set before the Log is used.
	Ended func(Record)

	mu      sync.Mutex
	last    uint64
	records []*Record // by Change
}

// After returns the records that changed after a Change, in their order.
func (l *Log) After(change uint64) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []Record{}
	for _, r := range l.records {
		if r.Change > change {
			all = append(all, *r)
		}
	}
	return all
}

// open records a connection that is allowed. The returned function records its end.
func (l *Log) open(r Record) (end func(sent, received int64, reason string)) {
	r.Allowed, r.Open = true, true
	kept := l.add(r)
	return func(sent, received int64, reason string) {
		l.mu.Lock()
		kept.Sent, kept.Received, kept.Reason, kept.Open = sent, received, reason, false
		l.touch(kept)
		ended := *kept
		l.mu.Unlock()
		l.report(ended)
	}
}

// refuse records a refusal. Equal refusals are one record.
func (l *Log) refuse(r Record, reason error) {
	r.Reason = reason.Error()
	l.mu.Lock()
	i := slices.IndexFunc(l.records, func(old *Record) bool {
		return !old.Allowed && old.Kind == r.Kind && old.Name == r.Name && old.Address == r.Address && old.Port == r.Port && old.Reason == r.Reason
	})
	if i >= 0 {
		old := l.records[i]
		old.Count++
		old.Time = time.Now()
		l.touch(old)
		r = *old
		l.mu.Unlock()
	} else {
		l.mu.Unlock()
		r = *l.add(r)
	}
	l.report(r)
}

func (l *Log) report(r Record) {
	if l.Ended != nil {
		l.Ended(r)
	}
}

func (l *Log) add(r Record) *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	r.Change, r.Time, r.Count = l.last, time.Now(), 1
	kept := &r
	l.records = append(l.records, kept)
	if len(l.records) > maxRecords {
		l.records = slices.Delete(l.records, 0, 1)
	}
	return kept
}

// touch moves a record to the end. One that was dropped meanwhile returns, in place of the
// oldest. The caller holds mu.
func (l *Log) touch(r *Record) {
	l.last++
	r.Change = l.last
	if i := slices.Index(l.records, r); i >= 0 {
		l.records = slices.Delete(l.records, i, i+1)
	} else if len(l.records) == maxRecords {
		l.records = slices.Delete(l.records, 0, 1)
	}
	l.records = append(l.records, r)
}
