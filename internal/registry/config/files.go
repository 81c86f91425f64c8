package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxCAFile bounds a file of certificates, in bytes.
const maxCAFile = 1 << 20

// CheckFiles reports every file that the configuration names and that cannot be
// used. Files may change later; they are read again when they are needed.
func (c *Config) CheckFiles() error {
	var f faults
	check := func(field, path string, test func(string) error) {
		if path == "" {
			return
		}
		if err := test(path); err != nil {
			f.add(field, "%w", err)
		}
	}
	if o := c.Auth.OAuth; o != nil {
		for i, p := range o.Providers {
			field := fmt.Sprintf("auth.oauth.providers[%d].", i)
			check(field+"clientSecretFile", p.ClientSecretFile, checkSecret)
			check(field+"caCertPath", p.CACertPath, checkCA)
			check(field+"authTokenFile", p.AuthTokenFile, checkSecret)
		}
	}
	if p := c.Database.Postgres; p != nil {
		check("database.postgres.passwordFile", p.PasswordFile, checkSecret)
	}
	for i, s := range c.Sources {
		field := fmt.Sprintf("sources[%d].", i)
		if s.Git != nil {
			check(field+"git.passwordFile", s.Git.PasswordFile, checkSecret)
			check(field+"git.caCertPath", s.Git.CACertPath, checkCA)
		}
		if s.API != nil {
			check(field+"api.tokenFile", s.API.TokenFile, checkSecret)
			check(field+"api.caCertPath", s.API.CACertPath, checkCA)
		}
	}
	if c.Web.Login != nil {
		check("web.login.clientSecretFile", c.Web.Login.ClientSecretFile, checkSecret)
	}
	if dir := filepath.Dir(c.Audit.File); c.Audit.File != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			f.add("audit.file", "the directory %s is not there", dir)
		}
	}
	return errors.Join(f...)
}

func readFile(path string, max int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return netguard.ReadBounded(file, max)
}

func checkSecret(path string) error {
	_, err := netguard.ReadSecret(path)
	return err
}

func checkCA(path string) error {
	content, err := readFile(path, maxCAFile)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(content) {
		err = fmt.Errorf("%s holds no PEM certificate", path)
	}
	return err
}
