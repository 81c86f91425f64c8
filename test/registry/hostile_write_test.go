//go:build integration

package registry

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/postgres"
)

func TestPublish_BoundsOfNamesAndVersions(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, testPublishBoundsOfNamesAndVersions)
}

func testPublishBoundsOfNamesAndVersions(t *testing.T, s *instance) {
	long := "a." + strings.Repeat("b", 97) + "/" + strings.Repeat("c", 100)
	for _, test := range []struct {
		name, version string
		status        int
	}{
		{long, "1.0.0", 200}, {long + "c", "1.0.0", 422}, {long, "1.0.0-" + strings.Repeat("x", 249), 200}, {long, "1.0.0-" + strings.Repeat("x", 250), 422},
		{"а.b/x", "1.0.0", 422}, // Cyrillic
		{"a.b/x\u200b", "1.0.0", 422}, {"a.b/x/y", "1.0.0", 422}, {"a.b//x", "1.0.0", 422}, {"../x", "1.0.0", 422}, {"a.b/..", "1.0.0", 422}, {"a.b/x%2e", "1.0.0", 422},
		{"a.b/x", "1.0.0+build.7", 200}, {"a.b/x", "1.0.0\u202e", 422}, {"a.b/x", "latest", 422}, {"a.b/x", "1/2", 422}, {"a.b/x", "..", 422}, {"a.b/x", "ünï-1", 200},
		{"a.b/x", "99999999999999999999.0.0", 200}, {"a.b/x", "1.0.0 ", 422}, {"a.b/x", "*", 422}, {"a.b/x", "1\n2", 422},
	} {
		a := mustDo(t, s.do("POST", publish, server(test.name, test.version)), test.status)
		if a.status != 200 {
			continue
		}
		// What is published can be found, by its name and by walking.
		mustDo(t, s.do("GET", at(test.name, "/versions/", url.PathEscape(test.version)), nil), 200)
	}
	seen, cursor := 0, ""
	for range 20 {
		l := list(t, s, "?limit=1&cursor="+cursor)
		seen += len(l.Servers)
		if cursor = l.Metadata.NextCursor; cursor == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("walking by one finds %d of 5 versions", seen)
	}
}

func TestPublish_DeletedVersionsKept(t *testing.T) { onEachDatabase(t, testPublishDeletedVersionsKept) }

func testPublishDeletedVersionsKept(t *testing.T, s *instance) {
	const name = "a.b/x"
	mustDo(t, s.do("POST", publish, server(name, "1.0.0")), 200)
	mustDo(t, s.do("DELETE", at(name, "/versions/1.0.0"), nil), 200)
	first := s.do("GET", at(name, "/versions/1.0.0?include_deleted=true"), nil)
	mustDo(t, s.do("DELETE", at(name, "/versions/1.0.0"), nil), 200) // again, and nothing changes
	if again := s.do("GET", at(name, "/versions/1.0.0?include_deleted=true"), nil); again.String() != first.String() {
		t.Errorf("deleting twice changes %s to %s", first, again)
	}
	mustDo(t, s.do("POST", publish, server(name, "1.0.0")), 409) // the number is taken for ever
	mustDo(t, s.do("GET", at(name, "/versions/latest"), nil), 404)
	// An edit does not bring it back.
	var edited serverAnswer
	doc := server(name, "1.0.0")
	doc["title"] = "Edited"
	mustDo(t, s.do("PUT", at(name, "/versions/1.0.0"), doc), 200).into(t, &edited)
	if edited.Meta[official].Status != "deleted" {
		t.Errorf("an edit makes it %s", edited.Meta[official].Status)
	}
	mustDo(t, s.do("GET", at(name, "/versions/1.0.0"), nil), 404)
	mustDo(t, s.do("PATCH", at(name, "/versions/1.0.0/status"), `{"status":"active"}`), 200)
	mustDo(t, s.do("GET", at(name, "/versions/1.0.0"), nil), 200)
	for _, path := range []string{"/versions/2.0.0/status", "/versions/latest/status"} {
		mustDo(t, s.do("PATCH", at(name, path), `{"status":"active"}`), 404)
	}
}

func TestPublish_Concurrent(t *testing.T) {
	config := anonymous + fmt.Sprintf("database:\n  postgres: {url: %q}\n", postgres.Start(t).Database(t))
	t.Run("PostgreSQL, two replicas", func(t *testing.T) { oneWins(t, serve(t, config), serve(t, config)) })
	t.Run("SQLite", func(t *testing.T) { s := serve(t, anonymous); oneWins(t, s, s) })
}

func oneWins(t *testing.T, replicas ...*instance) {
	for round := range 4 {
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				doc := server("a.b/x", fmt.Sprint(round, ".0.0"))
				doc["title"] = fmt.Sprint("By ", i)
				switch a := replicas[i%2].do("POST", publish, doc); a.status {
				case 200:
					won.Add(1)
				case 409:
					lost.Add(1)
				default:
					t.Error(a)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 49 {
			t.Errorf("%d won and %d lost", won.Load(), lost.Load())
		}
	}
}

// What comes while the pages of a list of changes are read is left for the next
// list, whatever time was asked for.
func TestList_ChangesDuringWalk(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	for _, name := range []string{"a.b/one", "a.b/two"} {
		mustDo(t, s.do("POST", publish, server(name, "1.0.0")), http.StatusOK)
	}
	for i, since := range []string{"0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z"} {
		first := list(t, s, "?limit=1&updated_since="+since)
		mustDo(t, s.do("POST", publish, server(fmt.Sprintf("a.b/zzz%d", i), "1.0.0")), http.StatusOK)
		rest := list(t, s, "?updated_since="+since+"&cursor="+first.Metadata.NextCursor)
		if len(first.Servers) != 1 || len(rest.Servers) != 1+i {
			t.Errorf("since %s: %v, then %v", since, names(first), names(rest))
		}
	}
}

// Who asks for what was updated since the last thing they saw misses nothing,
// however many write at the same moment, through whichever replica.
func TestList_UpdatedSinceComplete(t *testing.T) {
	t.Parallel()
	config := anonymous + fmt.Sprintf("database:\n  postgres: {url: %q}\n", postgres.Start(t).Database(t))
	t.Run("PostgreSQL, two replicas", func(t *testing.T) { missesNothing(t, serve(t, config), serve(t, config)) })
	t.Run("SQLite", func(t *testing.T) { s := serve(t, anonymous); missesNothing(t, s, s) })
}

func missesNothing(t *testing.T, replicas ...*instance) {
	const writers, rounds = 8, 15
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range rounds {
				name := fmt.Sprintf("a.b/s%d-%d", i, n)
				if a := replicas[i%2].do("POST", publish, server(name, "1.0.0")); a.status != http.StatusOK {
					t.Error(a)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := map[string]int{}
	var since time.Time
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true // and once more
		default:
		}
		last := since
		// All pages of what is new; while they are read, more is written.
		for cursor, more := "", true; more; more = cursor != "" {
			query := "?limit=3&updated_since=" + url.QueryEscape(since.Format(time.RFC3339Nano)) + "&cursor=" + cursor
			l := list(t, replicas[len(seen)%2], query)
			for _, s := range l.Servers {
				seen[s.Server.Name]++
				if at := s.Meta[official].UpdatedAt; at.After(last) {
					last = at
				}
			}
			cursor = l.Metadata.NextCursor
		}
		since = last
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s was listed %d times", name, n)
		}
	}
	if len(seen) != writers*rounds {
		t.Errorf("of %d servers %d were seen", writers*rounds, len(seen))
	}
}
