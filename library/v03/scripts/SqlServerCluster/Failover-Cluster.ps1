function Install-FailoverClusterPrerequisites {
    # The features that every node needs.
    Install-Feature -Name Failover-Clustering, RSAT-Clustering-PowerShell
}

function New-FailoverCluster {
    # Creates a cluster of all nodes, unless there is one; runs as an administrator of the domain.
    param(
        [Parameter(Mandatory)] [string] $UserName,
        [Parameter(Mandatory)] [string] $UserPassword,
        [Parameter(Mandatory)] [string] $DomainName,
        [Parameter(Mandatory)] [string] $ClusterName,
        [Parameter(Mandatory)] [string[]] $ClusterNodes,
        [Parameter(Mandatory)] [string] $StaticAddress
    )
    if (Get-Cluster -ErrorAction SilentlyContinue) {
        Write-Log 'This machine is in a cluster already'
        return
    }
    $nodes = ($ClusterNodes | ForEach-Object { "'$($_ -replace "'", "''")'" }) -join ', '
    $name = $ClusterName -replace "'", "''"
    $command = "Import-Module FailoverClusters; New-Cluster -Name '$name' -Node $nodes -StaticAddress '$StaticAddress' -NoStorage | Out-Null"
    Start-PowerShellProcess -Command $command -Credential (ConvertTo-Credential "$DomainName\$UserName" $UserPassword)
    Write-Log "The cluster $ClusterName is created"
}
