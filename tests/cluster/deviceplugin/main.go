// Command deviceplugin is a device plugin in the kubelet's own protocol: it offers -count healthy devices as -resource.
//
// It registers whenever kubelet.sock appears, so it outlives kubelet restarts, and says "registered" on standard output each
// time. It removes its socket when it is told to end.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type devices struct {
	plugin.UnimplementedDevicePluginServer
	list []*plugin.Device
}

func (d *devices) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch stays open: the kubelet takes its end for the plugin's.
func (d *devices) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: d.list}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (d *devices) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &plugin.ContainerAllocateResponse{})
	}
	return response, nil
}

func main() {
	resource := flag.String("resource", "", "extended resource to offer")
	count := flag.Int("count", 1, "number of devices")
	folder := flag.String("folder", plugin.DevicePluginPath, "the kubelet's device-plugins folder")
	flag.Parse()

	ended, cancel := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer cancel()
	d := &devices{}
	for i := range *count {
		d.list = append(d.list, &plugin.Device{ID: fmt.Sprintf("device-%d", i), Health: plugin.Healthy})
	}
	if err := serve(ended, d, *resource, *folder); err != nil && ended.Err() == nil {
		log.Fatal(err)
	}
}

// serve offers the devices to each kubelet that comes, until ended.
func serve(ended context.Context, d *devices, resource, folder string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(folder); err != nil {
		return err
	}
	socket := filepath.Join(folder, strings.ReplaceAll(resource, "/", "_")+".sock")
	defer os.Remove(socket)
	kubelet := filepath.Join(folder, "kubelet.sock")
	var server *grpc.Server
	stop := func() {
		if server != nil {
			server.Stop()
		}
	}
	defer func() { stop() }()

	// The watch stands already, so that a socket that appears from here on is not missed.
	if _, err := os.Stat(kubelet); err != nil {
		if err := next(ended, watcher, kubelet); err != nil {
			return err
		}
	}
	for ended.Err() == nil {
		// A kubelet that starts empties the folder, our socket included.
		stop()
		if server, err = listen(d, socket); err != nil {
			return err
		}
		if err := register(ended, resource, kubelet, filepath.Base(socket)); err != nil {
			return err
		}
		fmt.Println("registered")
		if err := next(ended, watcher, kubelet); err != nil {
			return err
		}
	}
	return nil
}

// next returns when kubelet.sock is created, or at the end.
func next(ended context.Context, watcher *fsnotify.Watcher, kubelet string) error {
	for {
		select {
		case event := <-watcher.Events:
			if event.Name == kubelet && event.Has(fsnotify.Create) {
				return nil
			}
		case err := <-watcher.Errors:
			return err
		case <-ended.Done():
			return nil
		}
	}
}

func listen(d *devices, socket string) (*grpc.Server, error) {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, d)
	go server.Serve(listener)
	return server, nil
}

// register waits for the kubelet to answer: its socket file appears before it listens.
func register(ended context.Context, resource, kubelet, endpoint string) error {
	ctx, cancel := context.WithTimeout(ended, 30*time.Second)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = plugin.NewRegistrationClient(connection).Register(ctx, &plugin.RegisterRequest{
		Version:      plugin.Version,
		Endpoint:     endpoint,
		ResourceName: resource,
	}, grpc.WaitForReady(true))
	return err
}
