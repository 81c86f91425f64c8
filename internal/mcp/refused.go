package mcp

import "unicode/utf8"

// What can still be told of a text that [Parse] or [ParseBatch] refused.

// ParseID finds the id that the answer to a message refused by [Parse] should
// carry. It is zero when the message is no JSON object or has no single,
// readable id (JSON-RPC 2.0 section 5: the answer then has id null).
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

// Answered tells what requests a text of a server's answers. It reads as far as it can:
// servers write NaN for a number, or text that is not UTF-8, and mean an answer all the
// same. lost: it is an answer, and to which request cannot be told.
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
		case "method": // it is the server's own request, whose id is none of ours
			return ID{}, false
		case "result", "error":
			outcome = true // also when it is where the text cannot be read any more
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
	// One that is whole and has no id of ours is nobody's: servers answer
	// notifications like that.
	return id, id.IsZero() && outcome && it.err != nil
}
