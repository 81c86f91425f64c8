//go:build integration

package dex

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAPersonLogsInAndKeysSurviveARestart(t *testing.T) {
	p := Start(t, Options{})
	tokens := p.Login(t, "offline_access")
	if strings.Count(tokens.AccessToken, ".") != 2 || strings.Count(tokens.IDToken, ".") != 2 || tokens.RefreshToken == "" {
		t.Fatalf("%+v", tokens)
	}
	ids := p.KeyIDs(t)
	p.Stop()
	if _, err := p.get("/keys"); err == nil {
		t.Error("it answers after Stop")
	}
	p.Restart(t)
	if again := p.KeyIDs(t); !slices.Equal(ids, again) {
		t.Errorf("%v, after the restart %v", ids, again)
	}
}

func TestKeysRotateAtTheNextStart(t *testing.T) {
	p := Start(t, Options{KeyLifetime: time.Second})
	ids := p.KeyIDs(t)
	for range 2 {
		p.Stop()
		time.Sleep(time.Second) // the life of a key
		p.Restart(t)
	}
	again := p.KeyIDs(t)
	if len(again) != 3 || !slices.Contains(again, ids[0]) {
		t.Errorf("%v, after two starts %v", ids, again)
	}
}
