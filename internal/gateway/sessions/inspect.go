package sessions

// Inspection is a snapshot of one session.
type Inspection struct {
	// Streams is the number of its event streams that are open.
	Streams int
	// Unanswered is the number of POSTs with an event stream that are not answered yet.
	Unanswered int
	// Replay is the number of events that are kept for the client.
	Replay int
	// Calls is the number of requests in flight whose client is connected.
	Calls int
	// Dropped is the number of notifications that did not reach the client.
	Dropped int
}

// Inspect returns a snapshot of the session with the id; ok is false when there is none.
func (st *Store) Inspect(id string) (i Inspection, ok bool) {
	s := st.table.get(id)
	if s == nil {
		return Inspection{}, false
	}
	i = s.streams.inspect()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.client == nil || c.client.Err() == nil {
			i.Calls++
		}
	}
	return i, true
}

func (s *streams) inspect() Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Inspection{Unanswered: len(s.posts), Replay: len(s.replay.events), Dropped: s.dropped.Count()}
	if s.own.st != nil {
		i.Streams++
	}
	for _, c := range s.posts {
		if c.st != nil {
			i.Streams++
		}
	}
	return i
}
