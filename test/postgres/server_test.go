//go:build unix && integration

package postgres

import (
	"os"
	"testing"
)

func TestAServerComesAndGoes(t *testing.T) {
	var dir string
	t.Run("server", func(t *testing.T) {
		s := Start(t)
		dir = s.dir
		s.Database(t)
		s.Exec(t, "test1", "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)")
		s.Stop(t)
		if s.Running() || s.ping() == nil {
			t.Error("it answers although it was stopped")
		}
		s.Restart(t)
		s.Kill(t)
		if s.ping() == nil {
			t.Error("it answers although it was killed")
		}
		s.Restart(t)
		s.Exec(t, "test1", "DO $$ BEGIN ASSERT (SELECT count(*) FROM kept) = 1; END $$")
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", dir, err)
	}
}

func TestStartWith_Password(t *testing.T) {
	s := StartWith(t, Options{Password: "right"})
	s.options.Password = "wrong"
	if s.ping() == nil {
		t.Error("a wrong password is accepted")
	}
	s.options.Password = "right"
	if err := s.ping(); err != nil {
		t.Error(err)
	}
}
