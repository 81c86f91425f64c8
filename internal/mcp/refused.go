package mcp

import "unicode/utf8"

// Functions for a text that [Parse] or [ParseBatch] rejected.

// ParseID returns the id for the response to a message that [Parse] rejected. It is zero
// if the message is not a JSON object or does not have exactly one valid id (JSON-RPC 2.0
// section 5: the response then has id null).
func ParseID(b []byte) ID {
	it, err := openObject(b, skipSpace(b, 0), 0)
	if err != nil || !utf8.Valid(b) {
		return ID{}
	}
	var id ID
	found := 0
	for it.next() {
		if key, _ := unquote(it.key); key == "id" {
			found++
			id, _ = parseID(it.value)
		}
	}
	if it.err != nil || found != 1 {
		return ID{}
	}
	return id
}

// Answered returns the ids of the requests that a server's text responds to. It reads up
// to the first fault: responses of some servers contain NaN, or text that is not UTF-8.
// lost is true for a response whose id cannot be read.
func Answered(b []byte) (ids []ID, lost bool) {
	at := skipSpace(b, 0)
	if at < len(b) && b[at] == '[' { // 2025-03-26 has batches
		it, _ := openArray(b, at, 0)
		for n := 0; n < MaxBatch && it.next(); n++ {
			id, one := answered(it.value)
			if lost = lost || one; !id.IsZero() {
				ids = append(ids, id)
			}
		}
		return ids, lost
	}
	id, lost := answered(b)
	if id.IsZero() {
		return nil, lost
	}
	return []ID{id}, false
}

func answered(b []byte) (id ID, lost bool) {
	it, err := openObject(b, skipSpace(b, 0), 0)
	if err != nil {
		return ID{}, false
	}
	outcome, ids := false, 0
	for more := true; more; {
		more = it.next()
		key := ""
		if len(it.key) > 1 {
			key, _ = unquote(it.key)
		}
		switch key {
		case "method": // a request of the server, with an id of its own
			return ID{}, false
		case "result", "error":
			outcome = true // also if the fault is in its value
		case "id":
			if more {
				id, _ = parseID(it.value)
				ids++
			}
		}
	}
	if ids > 1 {
		id = ID{}
	}
	// A well-formed response without an id is not lost: some servers respond to
	// notifications with one.
	return id, id.IsZero() && outcome && it.err != nil
}
