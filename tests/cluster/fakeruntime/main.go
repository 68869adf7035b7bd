// Command fakeruntime is a container runtime that runs nothing: enough for a real kubelet to report its pods as running.
//
// SIGUSR1 makes it not ready, SIGUSR2 ready again; with -not-ready it starts not ready. A kubelet that registers while its
// runtime is not ready and its device-plugins folder is empty sets every extended resource of its Node to 0.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
)

func main() {
	socket := flag.String("socket", "", "Unix socket to listen on")
	images := flag.String("images", "", "names of the images it has, separated by commas")
	notReady := flag.Bool("not-ready", false, "start with the condition RuntimeReady false")
	flag.Parse()

	// Taken before anybody can know the process id: unhandled, these signals would end the process.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGUSR1, unix.SIGUSR2)
	ended, cancel := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer cancel()

	server := fake.NewFakeRemoteRuntime()
	// A kubelet takes an image of size 0 for one that it can't inspect.
	server.ImageService.SetFakeImageSize(1 << 20)
	server.ImageService.SetFakeImages(strings.Split(*images, ","))
	if err := server.Start("unix://" + *socket); err != nil {
		log.Fatal(err)
	}
	// Start has made it ready, so that what the flag says can only come after it.
	setReady(server, !*notReady)
	fmt.Println("listening")

	for {
		select {
		case s := <-signals:
			setReady(server, s == unix.SIGUSR2)
		case <-ended.Done():
			server.Stop()
			return
		}
	}
}

// setReady says so on standard output once it holds, for whoever sent the signal.
func setReady(server *fake.RemoteRuntime, ready bool) {
	server.RuntimeService.Lock()
	server.RuntimeService.FakeStatus = &runtime.RuntimeStatus{Conditions: []*runtime.RuntimeCondition{
		{Type: runtime.RuntimeReady, Status: ready},
		{Type: runtime.NetworkReady, Status: true},
	}}
	server.RuntimeService.Unlock()
	fmt.Printf("ready %t\n", ready)
}
