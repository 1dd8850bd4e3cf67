import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.Driver;
import org.apache.hadoop.hive.ql.session.SessionState;

/** Runs a statement of each line of standard input with Hive's own engine, in this process. */
public class HiveEngine {
    public static void main(String[] arguments) throws Exception {
        HiveConf conf = new HiveConf(HiveEngine.class);
        SessionState.start(new SessionState(conf));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String sql; (sql = in.readLine()) != null;) {
            Driver driver = new Driver(conf);
            List<Object> rows = new ArrayList<>();
            String failure = null;
            try {
                var answer = driver.run(sql);
                failure = answer.getResponseCode() == 0 ? null : answer.getErrorMessage();
                driver.setMaxRows(1_000_000);
                while (failure == null && driver.getResults(rows)) {}
            } catch (Exception error) {
                failure = error.toString();
            }
            for (Object row : rows) {
                List<String> values = new ArrayList<>();
                for (Object value : (Object[]) row) {
                    values.add(encoded(value));
                }
                out.println("row " + String.join(" ", values));
            }
            out.println(failure == null ? "done" : "failed " + encoded(failure));
            driver.close();
            driver.destroy();
        }
    }

    private static String encoded(Object value) throws Exception {
        if (value == null) {
            return "-";
        }
        String text = value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes) : value.toString();
        return "=" + Base64.getEncoder().encodeToString(text.getBytes("UTF-8"));
    }
}
