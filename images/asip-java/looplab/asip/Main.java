package looplab.asip;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;

/** Serves one controller at a time: a line asks for tests or for copying a pin, lines answer. */
public final class Main {
    private static final int PORT = 5100;
    private static final int STOP_MS = 10_000;
    private static final int RESTART = 75;
    private static volatile boolean restarting;

    private final PrintStream out;
    private final AtomicBoolean busy = new AtomicBoolean();
    private Thread worker;
    private Follow following;

    private Main(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        // The name by which the lab finds the process.
        Files.writeString(Path.of("/proc/self/comm"), "lab-asip-java");
        String port = System.getenv().getOrDefault("WORKER_PORT", Integer.toString(PORT));
        try (ServerSocket server = new ServerSocket(Integer.parseInt(port))) {
            while (!restarting) {
                try (Socket controller = server.accept()) {
                    controller.setTcpNoDelay(true);
                    serve(controller);
                } catch (IOException error) {
                    System.err.println("The controller's connection ended: " + error.getMessage());
                }
            }
        }
        System.exit(RESTART);
    }

    /** Makes the process end once the controller was answered, for what only a new one can do. */
    static void restart(String why) {
        System.err.println("This worker ends to be started again: " + why + ".");
        restarting = true;
    }

    private static void serve(Socket controller) throws IOException {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(controller.getInputStream(), StandardCharsets.UTF_8));
        Main served = new Main(new PrintStream(controller.getOutputStream(), true, StandardCharsets.UTF_8));
        try {
            String line;
            while (!restarting && (line = in.readLine()) != null) {
                if ("quit".equals(line.strip())) {
                    return;
                }
                served.answer(line);
            }
        } finally {
            served.end();
        }
    }

    private void answer(String line) {
        try {
            Request request = Request.of(line);
            switch (request.command) {
                case "hello" -> out.println(hello());
                case "latency" -> begin(request, new Latency(request, out), null);
                case "follow" -> {
                    Follow follow = new Follow(request, out);
                    begin(request, follow, follow);
                }
                case "stop" -> stop();
                default -> throw new Refused("there is no command " + request.command);
            }
        } catch (Refused refused) {
            out.println("error " + refused.getMessage());
        }
    }

    private static String hello() {
        String jit = System.getProperty("java.vm.info", "").contains("interpreted") ? "off" : "on";
        return "hello language=java runtime=OpenJDK_" + System.getProperty("java.version") + " jit=" + jit;
    }

    private void begin(Request request, Task task, Follow follow) throws Refused {
        if (!busy.compareAndSet(false, true)) {
            throw new Refused("the worker is busy: stop it first");
        }
        following = follow;
        worker = new Thread(() -> finish(accounted(request, task)), "worker");
        worker.start();
    }

    private void finish(String answer) {
        busy.set(false);
        out.println(answer);
    }

    /** Returns the last line of the answer, with the bytes of the session, once the way to the board is closed. */
    private static String accounted(Request request, Task task) {
        Account account = new Account();
        String answer = work(request, task, account);
        return answer.startsWith("done") ? answer + account.whole() : answer;
    }

    private static String work(Request request, Task task, Account account) {
        try (Transport transport = Transport.of(request);
                Board board = new Board(
                        transport,
                        request.number("in_port"),
                        request.number("in_bit"),
                        request.on("reports"),
                        account)) {
            board.connect();
            return task.run(board);
        } catch (Refused | IOException error) {
            return "error " + error.getMessage();
        } catch (InterruptedException stopped) {
            return "error stopped";
        } catch (RuntimeException | LinkageError error) {
            error.printStackTrace();
            return "error the worker failed, see its log: " + error;
        }
    }

    private void stop() throws Refused {
        if (!busy.get()) {
            throw new Refused("nothing runs");
        }
        if (following == null) {
            worker.interrupt();
        } else {
            following.stop();
        }
    }

    private void end() {
        if (worker == null) {
            return;
        }
        worker.interrupt();
        try {
            worker.join(STOP_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
