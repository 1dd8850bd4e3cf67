/*
 * The source of rows of older versions: see past.py, which compiles it when a session first reads one.
 *
 * Written for Spark 4; past.py imports SparkSession and Seq from where others have them. Janino infers no generics: all
 * collections are raw.
 */
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.*;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.catalog.*;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

public class TableWriterPast {
  public static class Files implements FileIndex {
    private final SparkSession session;
    private final CatalogTable table;
    private final String subject, advice;
    private final Seq partitions;  // what must be there is in their parameters
    private final long size;
    private final boolean whole;

    public Files(SparkSession session, CatalogTable table, String json, String subject, String advice,
        long size, boolean whole) throws IOException {
      this.session = session;
      this.table = table;
      this.subject = subject;
      this.advice = advice;
      this.size = size;
      this.whole = whole;
      Map[] all = (Map[]) new ObjectMapper().readValue(json, Map[].class);
      List known = new ArrayList();
      for (int one = 0; one < all.length; one++) {
        Map spec = (Map) all[one].remove("spec");
        known.add(new CatalogTablePartition(PythonUtils.toScalaMap(spec), table.storage(),
            PythonUtils.toScalaMap(all[one]), 0L, 0L, Option.empty()));
      }
      this.partitions = PythonUtils.toSeq(known);
    }

    public Seq rootPaths() { return PythonUtils.toSeq(Collections.singletonList(new Path(table.location()))); }
    public StructType partitionSchema() { return table.partitionSchema(); }
    public long sizeInBytes() { return size; }
    public boolean whole() { return whole; }  // no other partition was there
    public void refresh() { }

    public String[] inputFiles() {
      List paths = new ArrayList();
      for (scala.collection.Iterator all = listed(partitions).iterator(); all.hasNext();) {
        for (scala.collection.Iterator files = ((PartitionDirectory) all.next()).files().iterator(); files.hasNext();) {
          paths.add(((FileStatusWithMetadata) files.next()).getPath().toUri().toString());
        }
      }
      return (String[]) paths.toArray(new String[0]);
    }

    /* Filters on files' names and such (dataFilters) are Spark's own once more after the scan. */
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) { return listed(chosen(partitionFilters)); }

    Seq chosen(Seq filters) {
      String zone = session.sessionState().conf().sessionLocalTimeZone();
      return filters.isEmpty()
          ? partitions : ExternalCatalogUtils.prunePartitionsByFilter(table, partitions, filters, zone);
    }

    Seq listed(Seq chosen) {
      if (chosen.isEmpty()) return chosen;
      String zone = session.sessionState().conf().sessionLocalTimeZone();
      Configuration settings = session.sessionState().newHadoopConf();  // a copy of all: once, not for each partition
      List paths = new ArrayList(), specs = new ArrayList();
      for (scala.collection.Iterator all = chosen.iterator(); all.hasNext();) {
        CatalogTablePartition one = (CatalogTablePartition) all.next();
        Path path = qualified(new Path((String) wanted(one, "location")), settings);
        paths.add(path);
        specs.add(new PartitionPath(one.toRow(table.partitionSchema(), zone), path));
      }
      Seq none = PythonUtils.toSeq(new ArrayList());
      PartitionSpec spec = new PartitionSpec(
          table.partitionSchema(), table.partitionSchema().isEmpty() ? none : PythonUtils.toSeq(specs));
      Seq found = new InMemoryFileIndex(
          session, PythonUtils.toSeq(paths), PythonUtils.toScalaMap(new HashMap()), Option.empty(),
          NoopCache$.MODULE$, Option.apply(spec), Option.empty()).listFiles(none, none);
      scala.collection.Iterator asked = chosen.iterator();
      List meant = new ArrayList();
      for (scala.collection.Iterator all = found.iterator(); all.hasNext();) {
        CatalogTablePartition one = (CatalogTablePartition) asked.next();
        PartitionDirectory directory = (PartitionDirectory) all.next();
        Seq files = meant(one, directory.files());
        require(one, files);
        meant.add(new PartitionDirectory(directory.values(), files));
      }
      if (asked.hasNext()) throw gone((CatalogTablePartition) asked.next());
      return PythonUtils.toSeq(meant);
    }

    /* Others may lie in the same directory: what was added to it later, or what is not to be read. */
    private static Seq meant(CatalogTablePartition one, Seq files) {
      List only = (List) wanted(one, "only"), without = (List) wanted(one, "without");
      if (only == null && without.isEmpty()) return files;
      Set names = new HashSet(only == null ? without : only);
      List found = new ArrayList();
      for (scala.collection.Iterator all = files.iterator(); all.hasNext();) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) all.next();
        if (names.contains(file.getPath().getName()) == (only != null)) found.add(file);
      }
      return PythonUtils.toSeq(found);
    }

    /* A partition for each file: Hadoop fails if a path that it is given is gone, and not if a directory is empty. */
    Seq byFile(Seq filters, Seq columns) {
      Seq chosen = chosen(filters);
      List found = new ArrayList();
      scala.collection.Iterator directories = listed(chosen).iterator();
      for (scala.collection.Iterator all = chosen.iterator(); all.hasNext();) {
        CatalogTablePartition one = (CatalogTablePartition) all.next();
        Seq files = ((PartitionDirectory) directories.next()).files();
        for (scala.collection.Iterator each = files.iterator(); each.hasNext();) {
          Path path = ((FileStatusWithMetadata) each.next()).getPath();
          scala.collection.immutable.Map spec = one.spec();
          if (spec.isEmpty()) spec = PythonUtils.toScalaMap(Collections.singletonMap(columns.head(), path.getName()));
          found.add(new CatalogTablePartition(
              spec, at(path), PythonUtils.toScalaMap(new HashMap()), 0L, 0L, Option.empty()));
        }
      }
      return PythonUtils.toSeq(found);
    }

    /* Its fields are others in other versions of Spark: the location is the first in all. */
    private CatalogStorageFormat at(Path path) {
      CatalogStorageFormat storage = table.storage();
      Object[] fields = new Object[storage.productArity()];
      for (int position = 0; position < fields.length; position++) fields[position] = storage.productElement(position);
      fields[0] = Option.apply(path.toUri());
      try {
        return (CatalogStorageFormat) CatalogStorageFormat.class.getConstructors()[0].newInstance(fields);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }

    private static Object wanted(CatalogTablePartition one, String name) { return one.parameters().apply(name); }

    private void require(CatalogTablePartition one, Seq files) {
      Number wantedFiles = (Number) wanted(one, "files"), wantedBytes = (Number) wanted(one, "bytes");
      Number until = (Number) wanted(one, "until");
      long bytes = 0, count = 0;
      boolean isLater = false;
      for (scala.collection.Iterator all = files.iterator(); all.hasNext(); count++) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) all.next();
        bytes += file.getLen();
        isLater |= until != null && file.getModificationTime() > until.longValue();
      }
      boolean isAsKnown = wantedBytes == null
          ? count > 0  // emptied by another tool, for all that is known
          : bytes == wantedBytes.longValue() && count <= wantedFiles.longValue();
      if (isLater || !isAsKnown) throw gone(one);
    }

    private UncheckedIOException gone(CatalogTablePartition one) {
      String said = subject + ": " + wanted(one, "name") + " " + advice;
      return new UncheckedIOException(said, new FileNotFoundException((String) wanted(one, "location")));
    }

    private Path qualified(Path path, Configuration settings) {
      try {
        return path.getFileSystem(settings).makeQualified(path);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  /* Hive's own reader drops filters on partitions that it is given. So it is given those alone that they leave. */
  public static class Rows extends BaseRelation implements CatalystScan {
    private static final String[] FORGIVING = {
        "spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles", "spark.sql.hive.verifyPartitionPath"};
    private final SparkSession session;
    private final Files files;
    private final HiveTableRelation relation;
    private final StructType schema;
    private final Set names;

    public Rows(SparkSession session, Files files, HiveTableRelation relation, StructType schema) {
      this.session = session;
      this.files = files;
      this.relation = relation;
      this.schema = schema;
      this.names = new HashSet(Arrays.asList(files.partitionSchema().fieldNames()));
    }

    public SQLContext sqlContext() { return session.sqlContext(); }
    public StructType schema() { return schema; }
    public long sizeInBytes() { return files.sizeInBytes(); }
    public boolean whole() { return files.whole(); }
    public boolean needConversion() { return false; }

    public RDD buildScan(Seq columns, Seq filters) {
      List known = new ArrayList();
      for (scala.collection.Iterator all = filters.iterator(); all.hasNext();) {
        Expression one = (Expression) all.next();
        boolean isKnown = one.deterministic() && !SubqueryExpression.hasSubquery(one);
        for (scala.collection.Iterator used = one.references().iterator(); used.hasNext();) {
          isKnown &= names.contains(((Attribute) used.next()).name());
        }
        if (isKnown) known.add(one);
      }
      List output = new ArrayList();
      for (scala.collection.Iterator all = columns.iterator(); all.hasNext();) {
        String name = ((Attribute) all.next()).name();
        for (scala.collection.Iterator own = relation.output().iterator(); own.hasNext();) {
          Attribute one = (Attribute) own.next();
          if (one.name().equalsIgnoreCase(name)) output.add(one);
        }
      }
      Seq found = files.byFile(PythonUtils.toSeq(known), relation.tableMeta().partitionColumnNames());
      LogicalPlan scan = relation.copy(relation.tableMeta(), relation.dataCols(), relation.partitionCols(),
          relation.tableStats(), Option.apply(found));
      LogicalPlan plan = new Project(PythonUtils.toSeq(output), scan);
      SparkSession strict = strict();
      return strict.sessionState().executePlan(plan, strict.sessionState().executePlan$default$2()).toRdd();
    }

    /* The session as it is now, but no file that is gone is passed over: Hive's reader takes no options. */
    private SparkSession strict() {
      SparkSession copy = session.cloneSession();
      for (int one = 0; one < FORGIVING.length; one++) copy.sessionState().conf().setConfString(FORGIVING[one], "false");
      return copy;
    }
  }
}
