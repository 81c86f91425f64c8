package docker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeNetworks is an engine's set of networks that, like engines before API 1.44,
// takes two of one name.
type fakeNetworks struct {
	mu           sync.Mutex
	all          []map[string]any
	listed, made int
	// racers processes see no network at first, and their creations are answered
	// only after all have happened.
	racers  int
	created chan struct{}
	inUse   map[string]bool
}

func (n *fakeNetworks) handler() http.Handler {
	return fakeEngine(map[string]http.HandlerFunc{
		"GET /networks": func(w http.ResponseWriter, _ *http.Request) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.listed++; n.listed <= n.racers {
				json.NewEncoder(w).Encode([]any{})
				return
			}
			json.NewEncoder(w).Encode(n.all)
		},
		"POST /networks/create": func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			n.mu.Lock()
			n.made++
			body["Id"] = fmt.Sprintf("id%d", n.made)
			body["Created"] = time.Date(2026, 1, 1, 0, 0, 10-n.made, 0, time.UTC)
			n.all = append(n.all, body)
			if n.made == n.racers {
				close(n.created)
			}
			n.mu.Unlock()
			<-n.created
			w.WriteHeader(http.StatusCreated)
			json.NewEncoder(w).Encode(map[string]any{"Id": body["Id"]})
		},
		"DELETE /networks/{id}": func(w http.ResponseWriter, r *http.Request) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.inUse[r.PathValue("id")] {
				responds(403, `{"message":"network has active endpoints"}`)(w, r)
				return
			}
			i := slices.IndexFunc(n.all, func(m map[string]any) bool { return m["Id"] == r.PathValue("id") })
			if i < 0 {
				responds(404, `{"message":"no such network"}`)(w, r)
				return
			}
			n.all = slices.Delete(n.all, i, i+1)
			w.WriteHeader(http.StatusNoContent)
		},
	})
}

func TestRacingProcessesEndWithOneNetwork(t *testing.T) {
	for name, used := range map[string]string{"none is used yet": "", "the oldest is used": "id3", "the youngest is used": "id1"} {
		t.Run(name, func(t *testing.T) {
			const racers = 3
			n := &fakeNetworks{racers: racers, created: make(chan struct{}), inUse: map[string]bool{used: true}}
			h := n.handler()
			var wait sync.WaitGroup
			for range racers {
				e := connect(t, h)
				wait.Go(func() {
					if err := e.EnsureNetwork(t.Context(), "thv"); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			if len(n.all) != 1 || used != "" && n.all[0]["Id"] != used {
				t.Fatalf("left: %v", n.all)
			}
			if icc := n.all[0]["Options"].(map[string]any)[optionICC]; icc != "false" {
				t.Errorf("containers may reach each other: %v", icc)
			}
		})
	}
}

func TestANetworkThatLetsContainersTalkIsRefused(t *testing.T) {
	for name, other := range map[string]map[string]any{
		"made by hand":   {"Name": "thv", "Id": "a", "Driver": "bridge", "Options": map[string]string{}},
		"another driver": {"Name": "thv", "Id": "a", "Driver": "macvlan", "Options": map[string]string{optionICC: "false"}},
	} {
		n := &fakeNetworks{all: []map[string]any{{"Name": "thv2", "Id": "b", "Driver": "bridge"}, other}}
		err := connect(t, n.handler()).EnsureNetwork(t.Context(), "thv")
		if err == nil || !strings.Contains(err.Error(), "docker network rm thv") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The gateway is that of the default bridge.
func TestGateway(t *testing.T) {
	for body, want := range map[string]string{
		`{"IPAM":{"Config":[{"Subnet":"172.18.0.0/16","Gateway":"172.18.0.1"}]}}`:                      "172.18.0.1",
		`{"IPAM":{"Config":[{"Subnet":"fd00::/64","Gateway":"fd00::1"},{"Subnet":"10.5.0.0/16"}]}}`:    "10.5.0.1",
		`{"IPAM":{"Config":[{"Subnet":"fd00::/64"},{"Subnet":"10.5.0.0/16","Gateway":"10.5.0.254"}]}}`: "10.5.0.254",
		`{"IPAM":{"Config":null}}`: "172.17.0.1",
		"":                         "172.17.0.1", // there is none
	} {
		answer := responds(200, body)
		if body == "" {
			answer = responds(404, `{"message":"no such network"}`)
		}
		got, err := connect(t, fakeEngine(map[string]http.HandlerFunc{"GET /networks/bridge": answer})).Gateway(t.Context())
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
	failing := fakeEngine(map[string]http.HandlerFunc{"GET /networks/bridge": responds(500, `{"message":"x"}`)})
	if got, err := connect(t, failing).Gateway(t.Context()); err == nil {
		t.Errorf("an engine that fails: %s", got)
	}
}
